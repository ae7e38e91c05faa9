use std::ffi::c_int;

use hip_sys::{
    Blaslt, Hip, LoadError, Rand, Rocblas, Rtc, SharedLibrary, hipblas_status_name,
    hiprand_status_name, rocblas_status_name,
};
use plan::Plan;

use crate::{
    broken::WorkerError,
    needs::{self, FunctionLibrary},
};

/// The loaded libraries that a plan needs.
pub(crate) struct Libraries {
    pub(crate) hip: Hip,
    rtc: Option<Rtc>,
    rand: Option<Rand>,
    blaslt: Option<Blaslt>,
    rocblas: Option<Rocblas>,
}

impl Libraries {
    /// Loads the libraries that the plan needs, and hipRTC if delays are injected. Looks up every function, so that a
    /// missing function is reported before the first call.
    pub(crate) fn load(plan: &Plan, late: bool) -> Result<Self, LoadError> {
        let homes = needs::homes(plan);
        let hip = Hip::load(&Hip::SONAMES)?;
        let wants = |home| homes.contains(&home);
        let libraries = Libraries {
            // Delay injection compiles a GPU kernel.
            rtc: (late || wants(FunctionLibrary::Rtc))
                .then(|| Rtc::load(hip.shared()))
                .transpose()?,
            rand: wants(FunctionLibrary::Rand).then(Rand::load).transpose()?,
            blaslt: wants(FunctionLibrary::Blaslt).then(Blaslt::load).transpose()?,
            rocblas: wants(FunctionLibrary::Rocblas).then(Rocblas::load).transpose()?,
            hip,
        };
        for function in needs::functions(plan) {
            if let Some(shared) = libraries.shared(FunctionLibrary::for_function(function)) {
                shared.require(function)?;
            }
        }
        Ok(libraries)
    }

    fn shared(&self, home: FunctionLibrary) -> Option<SharedLibrary> {
        match home {
            FunctionLibrary::Hip => Some(self.hip.shared()),
            FunctionLibrary::Rtc => self.rtc.as_ref().map(Rtc::shared),
            FunctionLibrary::Rand => self.rand.as_ref().map(Rand::shared),
            FunctionLibrary::Blaslt => self.blaslt.as_ref().map(Blaslt::shared),
            FunctionLibrary::Rocblas => self.rocblas.as_ref().map(Rocblas::shared),
        }
    }

    pub(crate) fn rtc(&self) -> Result<&Rtc, WorkerError> {
        self.rtc.as_ref().ok_or_else(|| not_loaded("hipRTC"))
    }

    pub(crate) fn rand(&self) -> Result<&Rand, WorkerError> {
        self.rand.as_ref().ok_or_else(|| not_loaded("hipRAND"))
    }

    pub(crate) fn blaslt(&self) -> Result<&Blaslt, WorkerError> {
        self.blaslt.as_ref().ok_or_else(|| not_loaded("hipBLASLt"))
    }

    pub(crate) fn rocblas(&self) -> Result<&Rocblas, WorkerError> {
        self.rocblas.as_ref().ok_or_else(|| not_loaded("rocBLAS"))
    }

    /// Returns the name of a status code in the spelling of the library that returned it.
    pub(crate) fn status_name(&self, home: FunctionLibrary, code: c_int) -> String {
        match (home, &self.rtc) {
            (FunctionLibrary::Rtc, Some(rtc)) => rtc.error_name(code),
            (FunctionLibrary::Hip | FunctionLibrary::Rtc, _) => self.hip.error_name(code),
            (FunctionLibrary::Rand, _) => hiprand_status_name(code),
            (FunctionLibrary::Blaslt, _) => hipblas_status_name(code),
            (FunctionLibrary::Rocblas, _) => rocblas_status_name(code),
        }
    }
}

fn not_loaded(library: &str) -> WorkerError {
    // The module `needs` lists the libraries that a plan needs. A missing library is therefore a mistake in that
    // module.
    WorkerError(format!("{library} was not loaded for a plan that calls it"))
}
