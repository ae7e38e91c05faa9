//! The objects of the program that the recorder must know in order to decode arguments: device memory and kernels.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ::code_object::CodeParameter;

use crate::{code_object::Kernels, read_backs::ReadBacks};

/// A kernel that the program can launch.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// Parameters that the program passes; `None` if the metadata of the code object cannot be read.
    pub(crate) parameters: Option<Vec<CodeParameter>>,
}

/// The objects of the program that the recorder knows, by their addresses or handles.
#[derive(Default)]
pub(crate) struct Objects {
    /// Kernels in each loaded module, by the handle of the module.
    modules: HashMap<u64, Arc<Kernels>>,
    /// Kernels by their function handles.
    functions: HashMap<u64, Kernel>,
    /// Ranges of memory that HIP allocated. The key is the address of the first byte, the value the number of bytes.
    memory: BTreeMap<u64, u64>,
    pub(crate) read_backs: ReadBacks,
}

impl Objects {
    pub(crate) fn load(&mut self, module: u64, kernels: Kernels) {
        self.modules.insert(module, Arc::new(kernels));
    }

    pub(crate) fn add_function(&mut self, function: u64, module: u64, name: String) {
        let kernels = self.modules.get(&module);
        let parameters = kernels.and_then(|kernels| kernels.get(&name)).cloned();
        self.functions.insert(function, Kernel { name, parameters });
    }

    pub(crate) fn function(&self, function: u64) -> Option<&Kernel> {
        self.functions.get(&function)
    }

    pub(crate) fn allocate(&mut self, at: u64, bytes: u64) {
        self.memory.insert(at, bytes);
    }

    pub(crate) fn free(&mut self, at: u64) {
        self.memory.remove(&at);
    }

    /// Returns true if HIP allocated the memory at an address.
    pub(crate) fn is_hip_memory(&self, at: u64) -> bool {
        let before = self.memory.range(..=at).next_back();
        before.is_some_and(|(start, bytes)| at - start < (*bytes).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_where_their_memory_ends() {
        let mut objects = Objects::default();
        objects.allocate(0x1000, 64);
        let is_in =
            |objects: &Objects| [0xfff, 0x1000, 0x103f, 0x1040].map(|at| objects.is_hip_memory(at));
        assert_eq!(is_in(&objects), [false, true, true, false]);
        objects.free(0x1000);
        assert_eq!(is_in(&objects), [false; 4]);
    }
}
