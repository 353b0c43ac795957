"""Makes damaged and odd inputs of every format, reads them, and holds what was read to an oracle per format.

    PYTHONPATH=tests python -m fuzz --seed 1 --format chrome --count 1000 --jobs 1

Everything about an input follows from the seed, the format and its number, so that a find can be made again:
``--seed 1 --format chrome --only 4711``. An input is a base (part of an own recording) and a few steps, each of a class
of mutations with a seed of its own; a find is made smaller by leaving steps out.
"""
