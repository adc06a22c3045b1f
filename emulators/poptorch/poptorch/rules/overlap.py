"""The rules of overlapped host I/O: transfers beside the computation need tiles of their own."""

from torch import fx

from poptorch.capture.source import located, source_of
from poptorch.enums import OutputMode, OverlapMode
from poptorch.errors import Error
from poptorch.options import Options
from poptorch.options._locations import FEWEST_IO_TILES
from poptorch.rules.refusals import operation_name

_INPUT, _OUTPUT = "overlap_input", "overlap_output"


def check_overlap(graph: fx.Graph, options: Options) -> None:
    """Error where a marked tensor is no input or output, is used otherwise, or the options don't allow it."""
    marks = [node for node in graph.nodes if operation_name(node) in (_INPUT, _OUTPUT)]
    returned = list(graph.output_node().args[0])
    for node in marks:
        if operation_name(node) == _INPUT:
            _check_input(node, graph)
        else:
            _check_output(node, returned)
    if any(node.args[1] != OverlapMode.NoOverlap.value for node in marks):
        _check_options(options)
        if options.output_mode not in (OutputMode.All, OutputMode.Sum) and any(
            operation_name(node) == _OUTPUT for node in marks
        ):
            raise Error(
                "Unsupported output mode for poptorch.set_overlap_for_output: results can be stored "
                "beside the computation with OutputMode.All or OutputMode.Sum, but the mode is "
                f"{options.output_mode.name}."
            )


def _check_input(node: fx.Node, graph: fx.Graph) -> None:
    source = node.args[0]
    if source.op != "placeholder" or not source.name.startswith("input"):
        raise located(
            "poptorch.set_overlap_for_input applied on a node which is not a tensor input to the model. "
            "Apply it to an argument of forward, before anything else is done to it.",
            source_of(node),
        )
    if len(source.users) > 1:
        inputs = [each for each in graph.nodes if each.op == "placeholder" and each.name.startswith("input")]
        raise located(
            "poptorch.set_overlap_for_input must be the only op applied to an input. This is not the case "
            f"for input {inputs.index(source)} to the model. Use the tensor it returns everywhere else.",
            source_of(node),
        )


def _check_output(node: fx.Node, returned: list[fx.Node]) -> None:
    if node.args[0] in returned or returned.count(node) > 1:
        raise located(
            "poptorch.set_overlap_for_output cannot be used with a tensor that is returned twice. Please "
            "check all returned tensors including those nested in tuples/lists.",
            source_of(node),
        )
    if node not in returned:
        raise located(
            "poptorch.set_overlap_for_output applied on a node which is not a tensor output to the model. "
            "Return what it returns.",
            source_of(node),
        )


def _check_options(options: Options) -> None:
    if options.execution_strategy.mode == "Pipelined":
        raise Error(
            "Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using only one "
            "IPU, please switch to poptorch.ShardedExecution."
        )
    if not options.TensorLocations.num_io_tiles:
        raise Error(
            f"No IO tiles allocated. You must allocate at least {FEWEST_IO_TILES} IO tiles using "
            "poptorch.Options().TensorLocations.numIOTiles."
        )
