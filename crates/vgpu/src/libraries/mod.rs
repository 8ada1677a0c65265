//! The closed libraries above CUDA, as far as PyTorch's memory depends on them.
