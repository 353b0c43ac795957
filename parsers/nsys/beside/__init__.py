"""What an export holds beside the events of the frames: named when a file is read, read when it is asked for."""
