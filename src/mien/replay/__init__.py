"""The whole frame as tensors of fixed size: nothing waits for the processor, a GPU replays it."""
