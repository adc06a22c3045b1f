"""How long Poplar would take to compile a program: an estimate of minutes, from the size of the program."""

from poptorch.capture.program import Program

# A toy of four layers takes 80 to 90 s (Graphcore's tutorials).
_ANY_PROGRAM = 80.0
# Set by rows 19 to 22 of benchmarks/ipu_published.csv (EfficientNetV2-S, 726 operations): seconds for an
# operation, for a stage after the first, and for every other IPU that the executable is loaded to.
_AN_OPERATION, _A_STAGE, _AN_IPU = 0.44, 14.0, 4.0


def compilation_seconds(program: Program, replicas: int = 1) -> float:
    """Seconds from the first call to the first result on real hardware, without an executable cache."""
    stages = len(program.schedule.parts)
    ipus = len({part.ipu for part in program.schedule.parts}) * replicas
    size = _AN_OPERATION * len(program.operations) + _A_STAGE * (stages - 1)
    return _ANY_PROGRAM + size + _AN_IPU * (ipus - 1)
