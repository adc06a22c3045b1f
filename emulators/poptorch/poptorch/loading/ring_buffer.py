"""Elements handed from a worker process to this one, through tensors in memory that both see."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.capture import structures
from poptorch.errors import Error

# What is in a slot.
EMPTY, FULL, END_OF_DATA = 0, 1, 2


@dataclass
class RingBuffer:
    """Slots that the worker fills in turn and the reader empties in turn.

    `indices_mem` says what is in each slot, `rows` how many rows of it count: all, or fewer in the last
    element of the data. Each of `tensors` holds one tensor of the elements for all slots: [slots, ...].
    """

    tensors: list[torch.Tensor]
    structure: pytree.TreeSpec
    indices_mem: torch.Tensor
    rows: torch.Tensor
    _position: int = field(default=0)

    @classmethod
    def like(cls, element: object, slots: int) -> "RingBuffer":
        """Empty slots for elements like this one. Error when it holds anything but tensors."""
        leaves, structure = structures.flatten(element)
        strange = [type(leaf).__name__ for leaf in leaves if not isinstance(leaf, torch.Tensor)]
        if strange:
            raise Error(
                f"Asynchronous loading hands over tensors only, but the data set's elements hold "
                f"{strange[0]}. Turn it into a tensor in the data set or its collate_fn."
            )
        tensors = [torch.empty((slots, *leaf.shape), dtype=leaf.dtype) for leaf in leaves]
        state = [torch.zeros(slots, dtype=torch.uint8), torch.full((slots,), -1)]
        for tensor in (*tensors, *state):
            tensor.share_memory_()
        return cls(tensors, structure, *state)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "structure": structures.packed_tree(self.structure), "_position": 0}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.structure = structures.unpacked_tree(state["structure"])

    def restart(self) -> None:
        """Empty all slots; the reader and the worker both begin with the first one again."""
        self.indices_mem.zero_()
        self._position = 0

    @property
    def state(self) -> int:
        """What is in the slot whose turn it is."""
        return int(self.indices_mem[self._position])

    def put(self, element: object) -> None:
        """The worker's: copy an element into the slot and go on to the next.

        Error when it is not like the first one, but for fewer rows.
        """
        leaves, structure = structures.flatten(element)
        if structure != self.structure:
            raise Error(
                f"The data set's elements must all have the structure of the first, {self.structure}, but "
                f"one has {structure}."
            )
        rows = -1
        for tensor, leaf in zip(self.tensors, leaves, strict=True):
            slot = tensor[self._position]
            if slot.shape != leaf.shape:
                fewer = leaf.dim() and leaf.shape[1:] == slot.shape[1:] and leaf.shape[0] < slot.shape[0]
                if not fewer:
                    raise Error(
                        f"The data set's elements must all have the shapes of the first, {list(slot.shape)}, "
                        f"but one has {list(leaf.shape)}."
                    )
                rows = leaf.shape[0]
                slot = slot[:rows]
            slot.copy_(leaf)
        self.rows[self._position] = rows
        self._mark(FULL)

    def put_end(self) -> None:
        """The worker's: say that the data ends here."""
        self._mark(END_OF_DATA)

    def _mark(self, state: int) -> None:
        self.indices_mem[self._position] = state
        self.advance()

    def advance(self) -> None:
        """Go on to the next slot."""
        self._position = (self._position + 1) % len(self.indices_mem)

    def element(self) -> object:
        """The reader's: the element in the slot, in the shared memory itself."""
        rows = int(self.rows[self._position])
        slots = [tensor[self._position] for tensor in self.tensors]
        return pytree.tree_unflatten(slots if rows < 0 else [slot[:rows] for slot in slots], self.structure)

    def release(self) -> None:
        """The reader's: let the worker have the slot, and go on to the next."""
        self.indices_mem[self._position] = EMPTY
        self.advance()
