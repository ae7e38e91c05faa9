//! Decompresses xz and zstd with bounded memory. The header of an archive states how much memory its decompression
//! needs: up to 4 GiB in xz, and more in zstd.

use std::io::Read;

use lzma_rust2::XzReader;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder, errors::FrameDecoderError};

/// Maximum number of bytes of memory for decompressing one archive: xz's dictionary and tables, or zstd's window. The
/// highest presets of `xz` and `zstd` need 65 MiB and 128 MiB.
pub(crate) const MEMORY: u32 = 256 << 20;

/// Returns a reader of the decompressed content of an xz file. Reading fails with `OutOfMemory` if the file needs more
/// than [`MEMORY`].
pub(crate) fn xz<R: Read>(from: R) -> XzReader<R> {
    XzReader::new_mem_limit(from, true, MEMORY >> 10)
}

/// Reads the header of a zstd file, and returns a reader of the decompressed content.
///
/// # Errors
/// [`FrameDecoderError::WindowSizeTooBig`] if the file needs more than [`MEMORY`]; other errors if the header is
/// damaged.
pub(crate) fn zstd<R: Read>(
    from: R,
) -> Result<StreamingDecoder<R, FrameDecoder>, FrameDecoderError> {
    StreamingDecoder::new_with_max_window_size(from, MEMORY.into())
}
