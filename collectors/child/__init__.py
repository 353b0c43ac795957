"""The program that runs in the profiled Python: copied into the run's folder and started there by path.

It imports the standard library, torch and what the model needs, but nothing of tracetui, and runs on Python 3.8.
"""
