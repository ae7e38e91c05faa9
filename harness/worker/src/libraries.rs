use std::ffi::c_int;

use hip_sys::{
    Blaslt, Hip, LoadError, Rand, Rocblas, Rtc, SharedLibrary, hipblas_status_name,
    hiprand_status_name, rocblas_status_name,
};
use plan::Plan;

use crate::{
    broken::Broken,
    needs::{self, Home},
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
            rtc: (late || wants(Home::Rtc)).then(|| Rtc::load(hip.shared())).transpose()?,
            rand: wants(Home::Rand).then(Rand::load).transpose()?,
            blaslt: wants(Home::Blaslt).then(Blaslt::load).transpose()?,
            rocblas: wants(Home::Rocblas).then(Rocblas::load).transpose()?,
            hip,
        };
        for function in needs::functions(plan) {
            if let Some(shared) = libraries.shared(Home::of(function)) {
                shared.require(function)?;
            }
        }
        Ok(libraries)
    }

    fn shared(&self, home: Home) -> Option<SharedLibrary> {
        match home {
            Home::Hip => Some(self.hip.shared()),
            Home::Rtc => self.rtc.as_ref().map(Rtc::shared),
            Home::Rand => self.rand.as_ref().map(Rand::shared),
            Home::Blaslt => self.blaslt.as_ref().map(Blaslt::shared),
            Home::Rocblas => self.rocblas.as_ref().map(Rocblas::shared),
        }
    }

    pub(crate) fn rtc(&self) -> Result<&Rtc, Broken> {
        self.rtc.as_ref().ok_or_else(|| not_loaded("hipRTC"))
    }

    pub(crate) fn rand(&self) -> Result<&Rand, Broken> {
        self.rand.as_ref().ok_or_else(|| not_loaded("hipRAND"))
    }

    pub(crate) fn blaslt(&self) -> Result<&Blaslt, Broken> {
        self.blaslt.as_ref().ok_or_else(|| not_loaded("hipBLASLt"))
    }

    pub(crate) fn rocblas(&self) -> Result<&Rocblas, Broken> {
        self.rocblas.as_ref().ok_or_else(|| not_loaded("rocBLAS"))
    }

    /// Returns the name of a status code in the spelling of the library that returned it.
    pub(crate) fn status_name(&self, home: Home, code: c_int) -> String {
        match (home, &self.rtc) {
            (Home::Rtc, Some(rtc)) => rtc.error_name(code),
            (Home::Hip | Home::Rtc, _) => self.hip.error_name(code),
            (Home::Rand, _) => hiprand_status_name(code),
            (Home::Blaslt, _) => hipblas_status_name(code),
            (Home::Rocblas, _) => rocblas_status_name(code),
        }
    }
}

fn not_loaded(library: &str) -> Broken {
    // The module `needs` lists the libraries that a plan needs. A missing library is therefore a mistake in that
    // module.
    Broken(format!("{library} was not loaded for a plan that calls it"))
}
