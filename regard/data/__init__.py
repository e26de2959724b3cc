"""Text to token ids to batches; synthetic tasks; tokenizers."""
