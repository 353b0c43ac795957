class RunningLoss:
    """Smoothed loss, kept on the device and read by nobody until the end."""

    def __init__(self):
        self.value = None

    def after_step(self, number, loss):
        self.value = loss if self.value is None else self.value.lerp(loss, 0.02)
