"""The bytes of a ring: formats, offsets, kinds and flags, as docs/development/contracts.md says.

The sampler has a reader of its own, written from the same page; tests compare the two.
"""

import struct

MAGIC = b"SIORING1"
HEADER_BYTES = 4096
RECORD_BYTES = 64
N_RECORDS = 16384  # a power of two: 16 000 batches between two reads of the sampler

FIXED_HEADER = struct.Struct("<8sIIIIq")  # magic, header, record, n_records, greeting, clock offset
PHASE_OFFSET = 32
PHASE = struct.Struct("<IIQ")  # phase, loader id, since when (monotonic ns)
PHASE_AND_COUNT = struct.Struct("<IIQQ")  # the same, then records ever written
COUNT_OFFSET = 48
COUNT = struct.Struct("<Q")
STATE_OFFSET = 56
STATE = struct.Struct("<I")
ALIVE, CLOSED = 1, 2
# Counters of the GPU-side measuring, as words of 8 bytes of the header.
GPU_DROPPED_WORD, GPU_SKIPPED_WORD, GPU_FAILED_WORD = 8, 9, 10
# Waits of loaders that read in the waiting thread: time and CPU time so far, of loader 1, 2, ...
OWN_WORD, OWN_LOADERS = 16, 24
GREETING_OFFSET = 512
GREETING_BYTES = HEADER_BYTES - GREETING_OFFSET

# number, record kind, flags, loader id | event kind, epoch | text parts, start, end,
# batch index | text id, optimizer steps, end of last step | 0, gpu idle | bytes, number again
TIMED = struct.Struct("<QBBHIQQIIQqQ")
TEXT = struct.Struct("<QBBHI40sQ")  # number, 3, bytes used, part, text id, bytes, number again
TEXT_PART_BYTES = 40
TEXT_BYTES = 640

KIND_BATCH, KIND_EVENT, KIND_TEXT, KIND_GPU = 1, 2, 3, 4

STEP, DATA_WAIT, CHECKPOINT, LOADING = 0, 1, 2, 3  # phases

FIRST, WORKERS, CUDA, WATCHED, OFF_MAIN = 1, 2, 4, 8, 16  # flags of a BATCH
BLOCKING, MAIN_THREAD, FAILED = 1, 2, 4  # flags of an EVENT

LOADER, EPOCH_START, EPOCH_END = 1, 2, 3
CKPT_SAVE, CKPT_ASYNC, CKPT_BACKGROUND, LOAD = 4, 5, 6, 7
GC, EXIT, ERROR, PADDING = 8, 9, 10, 11

UNKNOWN = -1  # of bytes and of gpu_idle
MAX_LOADER_ID = 0xFFFF
