//! Archives into folders: Debian packages into a root, tarballs and wheels into a prefix. Paths in an archive are not
//! trusted, and neither are the sizes that it states.

pub(crate) mod budget;
pub(crate) mod deb;
pub(crate) mod decode;
mod kernels;
mod paths;
pub(crate) mod prefix;
#[cfg(test)]
pub(crate) mod testing;
