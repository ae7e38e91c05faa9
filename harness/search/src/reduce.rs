//! Minimisation of something that fails, perhaps now and then.
