"""The program that runs in the profiled Python: copied into the run's folder and started there by path.

It needs the standard library, torch and what the model needs, and nothing of tracetui; its syntax is Python 3.8's.
"""
