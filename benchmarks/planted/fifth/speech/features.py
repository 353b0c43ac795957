"""Log-mel features of a batch of waveforms."""
import math

import torch


def hz_to_mel(f):
    return 2595.0 * math.log10(1.0 + f / 700.0)


def mel_to_hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_matrix(n_mels, n_fft, rate):
    """Triangular filters, (n_mels, n_fft // 2 + 1)."""
    top = hz_to_mel(rate / 2)
    edges = [mel_to_hz(top * i / (n_mels + 1)) for i in range(n_mels + 2)]
    rows = []
    for m in range(n_mels):
        lo, mid, hi = edges[m:m + 3]
        row = []
        for k in range(n_fft // 2 + 1):
            f = k * rate / n_fft
            row.append(max(0.0, min((f - lo) / (mid - lo), (hi - f) / (hi - mid))))
        rows.append(row)
    return torch.tensor(rows)


class LogMel:
    def __init__(self, n_mels=80, n_fft=1024, hop=160, rate=16000, keep=False):
        self.args = (n_mels, n_fft, rate)
        self.n_fft, self.hop = n_fft, hop
        self.keep, self.mel = keep, None

    def filters(self, device):
        if self.mel is None or not self.keep:
            self.mel = mel_matrix(*self.args).to(device)
        return self.mel

    @torch.no_grad()
    def __call__(self, wave):
        window = torch.hann_window(self.n_fft, device=wave.device)
        spec = torch.stft(wave, self.n_fft, self.hop, window=window, return_complex=True)
        power = spec.abs().square()
        return torch.log(self.filters(wave.device) @ power + 1e-6)
