//! What an archive may ask of its reader.

/// Limits for files written by strangers. The defaults let every honest log through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Members of an archive.
    pub entries_max: usize,
    /// Bytes of the central directory.
    pub directory_bytes_max: u64,
    /// Inflated bytes of one member.
    pub entry_bytes_max: u64,
    /// Inflated bytes of all members together.
    pub expanded_bytes_max: u64,
    /// Inflated bytes per byte of the file, once `expansion_free_bytes` are exceeded.
    pub expansion_ratio_max: u64,
    /// Inflated bytes below which the ratio does not matter.
    pub expansion_free_bytes: u64,
    /// Base-2 logarithm of the memory that a zstd frame may ask for.
    pub zstd_window_log_max: u32,
    /// Bytes of a header or of another small member that is held in memory.
    pub header_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries_max: 4_000_000,
            directory_bytes_max: 1 << 30,
            entry_bytes_max: 64 << 30,
            expanded_bytes_max: 4 << 40,
            expansion_ratio_max: 1_000,
            expansion_free_bytes: 4 << 30,
            zstd_window_log_max: 27,
            header_bytes_max: 256 << 20,
        }
    }
}
