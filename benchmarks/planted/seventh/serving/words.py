import random

from common import FIX


class Vocabulary:
    """Pieces of text for token numbers."""

    def __init__(self, n, seed=5):
        rng = random.Random(seed)
        letters = "etaoinshrdlu cmfwygpbvk,.\n"
        self.pieces = ["".join(rng.choices(letters, k=rng.randint(1, 6))).encode() for _ in range(n)]
        self.longest = max(map(len, self.pieces))

    def decode(self, tokens):
        pieces = self.pieces
        return b"".join([pieces[t] for t in tokens]).decode("utf-8", errors="replace")


class StopWatcher:
    """Says whether an answer has just come to one of its stop strings."""

    def __init__(self, vocabulary, stops):
        self.vocabulary, self.stops = vocabulary, stops
        self.reach = max(map(len, stops))

    def hit(self, tokens):
        text = self.vocabulary.decode(tokens[-self.reach:] if FIX else tokens)
        return any(stop in text for stop in self.stops)
