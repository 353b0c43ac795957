"""The machine's state: clocks, temperatures, power, software; read from files and programs, never raises."""
