from common import size

DIM = size(1024, 32)
DEPTH = size(8, 2)
HEADS = size(16, 2)
LENGTH = size(4096, 32)
BATCH = size(4, 1)
WORDS = size(8192, 64)
OFFLOAD_LAYERS = size(1, 1)
