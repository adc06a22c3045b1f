"""Several host processes that train one model together."""

import os
from typing import ClassVar

from poptorch.options._group import OptionGroup, check_count, check_type

# What Open MPI's mpirun tells each process it starts: how many there are and which one this is.
_WORLD_SIZE, _RANK = "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"


class _DistributedOptions(OptionGroup):
    """How many host processes there are and which one this is."""

    DEFAULTS: ClassVar = {
        "num_distributed_processes": (1, int),
        "distributed_process_id": (0, int),
    }

    def __init__(self):
        super().__init__()
        self.setEnvVarNames(_WORLD_SIZE, _RANK)

    def disable(self) -> "_DistributedOptions":
        """This process works alone, whatever the environment says."""
        return self.configureProcessId(0, 1)

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> "_DistributedOptions":
        """Read the number of processes and this one's index from these environment variables.

        Where they are not set, this process works alone.
        """
        if var_num_processes in os.environ:
            processes, process_id = os.environ[var_num_processes], os.environ.get(var_process_id, "0")
            return self.configureProcessId(int(process_id), int(processes))
        return self.configureProcessId(0, 1)

    def configureProcessId(self, process_id: int, num_processes: int) -> "_DistributedOptions":
        """Set this process's index and the number of processes by hand. AssertionError for less than one."""
        check_type("process_id", process_id, int)
        check_count("num_processes", num_processes)
        self.set(distributed_process_id=process_id, num_distributed_processes=num_processes)
        return self

    @property
    def processId(self) -> int:
        """Index of this process."""
        return self.distributed_process_id

    @property
    def numProcesses(self) -> int:
        """Number of processes."""
        return self.num_distributed_processes
