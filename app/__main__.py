"""`python -m tracetui.app`."""

from tracetui.app.cli.main import script

if __name__ == "__main__":
    script()
