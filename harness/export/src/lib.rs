//! Prints a plan as a stand-alone HIP program. Pure.
