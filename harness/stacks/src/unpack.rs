//! Unpacks archives into folders: Debian packages into a root, tarballs and wheels into a prefix. Neither the paths in
//! an archive nor the sizes that it states are trusted.

pub(crate) mod budget;
pub(crate) mod deb;
pub(crate) mod decode;
mod kernels;
mod paths;
pub(crate) mod prefix;
#[cfg(test)]
pub(crate) mod testing;
