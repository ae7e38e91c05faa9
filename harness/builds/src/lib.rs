//! Ordered histories of ROCm builds: listing them, fetching them, keeping them.
