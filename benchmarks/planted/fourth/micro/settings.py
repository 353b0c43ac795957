from common import FIX, size

BATCH = size(128, 8)
MICRO_BATCH = BATCH if FIX else size(8, 2)  # from the machine with 8 GB
