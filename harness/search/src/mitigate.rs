//! Search for the changes that make a failure go away.
