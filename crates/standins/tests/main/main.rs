//! The images as others see them.

/// What a reader of ELF files finds in an image.
mod read;

/// What happens when the dynamic linker of this machine loads images.
mod load;
