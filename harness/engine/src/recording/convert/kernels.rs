//! Converts the compilation and the launches of kernels.

use plan::{Arg, Call, Scalar, ScalarType};
use recorder::trace::{ArgumentValue, CONTENTS};

use super::{
    super::arguments::{RecordedCall, bytes},
    Converter,
};

impl<'t> Converter<'t> {
    /// Remembers kernels and their sources.
    pub(super) fn kernels(&mut self, call: RecordedCall<'t>) -> Result<bool, String> {
        match call.name() {
            "hiprtcCreateProgram" => {
                let source = match call.argument("src") {
                    Some(ArgumentValue::Text(text)) => text.clone(),
                    Some(ArgumentValue::Memory { content: Some(content), .. }) => {
                        let file = self.trace.folder.join(CONTENTS).join(&content.xxh3);
                        std::fs::read_to_string(file).map_err(|error| error.to_string())?
                    }
                    _ => return Err("its source was not recorded".to_owned()),
                };
                self.programs.insert(call.made("prog")?, source);
            }
            "hiprtcGetCode" => {
                let program = call.address("prog")?;
                if let (Some(code), Some(source)) = (&call.end.code, self.programs.get(&program)) {
                    self.code.insert(code.xxh3.clone(), source.clone());
                }
            }
            "hipModuleLoadData" if call.succeeded() => {
                let code = call.end.code.as_ref().map(|code| code.xxh3.as_str());
                let source = code.and_then(|code| self.code.get(code)).cloned();
                let source =
                    source.ok_or("its code does not come from hipRTC, so it has no source")?;
                self.modules.insert(call.made("module")?, source);
            }
            "hipModuleGetFunction" if call.succeeded() => {
                let Some(ArgumentValue::Text(kernel)) = call.argument("kname") else {
                    return Err("its name was not recorded".to_owned());
                };
                let source =
                    self.modules.get(&call.address("module")?).cloned().unwrap_or_default();
                let words = |text: &str| text.split_whitespace().collect::<String>();
                match self.library.get(kernel) {
                    Some(shipped) if words(shipped) == words(&source) => {
                        self.plan.kernels.insert(kernel.clone(), shipped.clone());
                    }
                    _ => {
                        return Err(format!(
                            "`{kernel}` is not a kernel of rocrepro's library, so the results of a case with other bytes \
                             are unknown"
                        ));
                    }
                }
                self.names.insert(call.made("function")?, kernel.clone());
            }
            name if name.starts_with("hiprtc") && call.succeeded() => {}
            "hipModuleUnload" if call.succeeded() => {
                self.notes.insert("modules are unloaded at the end".to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn launch(&mut self, call: RecordedCall<'t>) -> Result<Call, String> {
        let kernel = self.named(call.address("f")?, "kernel")?;
        let size = |prefix: &str| {
            let [x, y, z] =
                ["X", "Y", "Z"].map(|axis| call.number_of_32_bits(&format!("{prefix}Dim{axis}")));
            Ok::<_, String>([x?, y?, z?])
        };
        let (grid, block) = (size("grid")?, size("block")?);
        let given = call.call.kernel.as_ref().and_then(|kernel| kernel.arguments.as_ref());
        let given = given.ok_or("its arguments were not recorded")?;
        let declared = plan::kernel(&kernel).map(|kernel| kernel.parameters).unwrap_or_default();
        let mut args = Vec::new();
        for (index, argument) in given.iter().enumerate() {
            let value = bytes(&argument.bytes).ok_or("its arguments are damaged")?;
            args.push(match argument.kind.as_str() {
                "by_value" => number(&value, declared.get(index))?,
                _ => {
                    let at = u64::from_le_bytes(value.try_into().map_err(|_| "a short pointer")?);
                    let place = self.place(at, 0);
                    Arg::Address(place.ok_or_else(|| format!("{at:#x} is not in recorded memory"))?)
                }
            });
        }
        let stream = self.stream(call, "stream")?;
        let shared = call.number_of_32_bits("sharedMemBytes")?;
        let cooperative = call.name().contains("Cooperative");
        Ok(Call::Launch { kernel, grid, block, args, shared, cooperative, stream })
    }
}

/// Returns an argument that is passed by value. The parameter is that of a kernel of the library.
fn number(value: &[u8], parameter: Option<&plan::Parameter>) -> Result<Arg, String> {
    let ty = match (value.len(), parameter) {
        (4, Some(plan::Parameter::F32)) => ScalarType::F32,
        (4, _) => ScalarType::U32,
        (8, _) => ScalarType::U64,
        (length, _) => return Err(format!("an argument has {length} bytes")),
    };
    let bits = value.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    Ok(Arg::Number(Scalar { ty, bits }))
}
