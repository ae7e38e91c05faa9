//! Unpacks archives into folders: Debian packages into the root folder of a stack, tarballs and wheels into the folder
//! of a build (its prefix). Neither the paths in an archive nor the sizes that it states are trusted.

pub(crate) mod budget;
pub(crate) mod deb;
pub(crate) mod decode;
mod kernels;
mod paths;
pub(crate) mod prefix;
#[cfg(test)]
pub(crate) mod testing;
