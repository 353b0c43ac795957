"""What happens around the steps of training."""
from callbacks.average import RunningLoss
from callbacks.memory import MemoryKeeper
from callbacks.schedule import Warmup

__all__ = ["MemoryKeeper", "RunningLoss", "Warmup"]
