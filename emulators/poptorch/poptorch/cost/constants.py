"""The numbers that were fitted, each with the published rows that set it (ids of
benchmarks/ipu_published.csv).

Everything else in the cost model is a fact of the machine or a formula with a source. Rows that are held out
of the calibration (benchmarks/ipu_accuracy.py says which) set nothing here. Cycles are of one tile.
"""

# --- Products and convolutions: set by the matrix products, rows 38 to 73

# Cycles to begin a reduction of partial results, besides the sync: control code, vertex launch.
COMPUTE_SET = 400.0
# Cycles to begin an exchange phase.
EXCHANGE_START = 100.0
# Cycles of an AMP vertex besides its blocks.
AMP_CALL = 500.0
# Worker cycles to begin one output row of 8 depthwise channels. Not fitted: a fifth of the 25 a row that
# poplibs takes, since a worker's rows follow each other.
VERTICAL_LOOP = 5.0

# --- Everything else on the device: set together by rows 3, 5 to 8, 10, 12 (EfficientNetV2-S), 23 to 27, 84,
# 85, 87 to 89, 91, 92, 95 to 101, 103, 105 to 107 and 112, on a grid of round numbers

# Cycles to begin a compute set of an element-wise or vector operation, besides the sync.
VECTOR_SET = 950.0
# Cycles a tile takes to load, work on and store 8 bytes of one operand of an element-wise operation.
VECTOR = 3.0
# The same for exp, tanh, division and their like, as a multiple. Not fitted: poplibs' vectorised exp and tanh
# take about three times an addition.
TRANSCENDENTAL = 3.0
# Cycles to transpose 8 bytes between layouts.
TRANSPOSE = 2.0
# Share of an element-wise operation's second operand that is not on the tile that needs it. Not fitted: half.
MISPLACED = 0.5

# --- Between chips and to the host

# Share of the IPU-Links' bandwidth that a reduction over replicas gets, and cycles of one hop of it: row 118
# (held out) aside, rows 85 and 107 bound them loosely.
LINK_EFFICIENCY = 0.5
LINK_HOP = 4000.0
# Bytes a second that one host process copies into the buffers of the streams. Set by row 112 and the
# difference that its source states: real data take 34 us an item of 65.5 kB longer than synthetic ones.
HOST_COPY = 1.93e9
# Seconds a call costs beside its work: the host's Python, and starting the device. Set by row 116.
CALL_SECONDS = 2.8e-3

# --- Memory: guesses that the anchors in benchmarks/ipu_accuracy.py bound, not fitted further

# Bytes of a tile's code: what every program has, and what every compute set adds (vertices' state, exchange
# and control code, after Poplar has outlined what repeats).
CODE_BYTES = 24 * 1024
CODE_BYTES_PER_SET = 48
# The fullest tile's share of activations beside the mean tile's.
UNEVEN = 1.15
