//! Prints calls that allocate, free or copy memory as C++.

use plan::{
    Box3d, Buffer, BufferAddress, Call, Choice, CopyApi, FirstValueCheck, Memory, Step, may_succeed,
};

use crate::{
    calls::HIP,
    checks::{is_success, number_fits},
    helpers::Helper,
    names::NameKind,
    printer::Printer,
};

impl Printer<'_> {
    pub(crate) fn buffer(&self, name: &str) -> Buffer {
        let none = Buffer { memory: Memory::Device, bytes: 0, guarded: false };
        self.plan.buffers.get(name).cloned().unwrap_or(none)
    }

    pub(crate) fn alloc(&mut self, step: &Step, buffer: &str, stream: &str) {
        let Buffer { memory, bytes, guarded } = self.buffer(buffer);
        let size = if guarded { format!("{bytes} + 2 * GUARD") } else { bytes.to_string() };
        if guarded {
            self.need(Helper::Guard);
        }
        if memory == Memory::HostPageable && self.short.is_some() && !guarded {
            return self.short_host_alloc(buffer);
        }
        if matches!(memory, Memory::HostPageable | Memory::HostRegistered) {
            self.need(Helper::HostAlloc);
            let ty = if self.declares(NameKind::Buffer, buffer) { "unsigned char* " } else { "" };
            let name = self.name(NameKind::Buffer, buffer);
            let skip = if guarded && memory == Memory::HostPageable { " + GUARD" } else { "" };
            self.line(format!("{ty}{name} = host_alloc({size}){skip};"));
            if memory == Memory::HostRegistered {
                let call = format!("hipHostRegister({name}, {size}, hipHostRegisterDefault)");
                self.status(step, &call, HIP);
                if guarded {
                    self.line(format!("{name} += GUARD;"));
                }
            }
            return;
        }
        let name = self.declare_created(NameKind::Buffer, buffer);
        let stream = self.stream(stream);
        match memory {
            Memory::HostPageable | Memory::HostRegistered => {}
            Memory::Device => self.status(step, &format!("hipMalloc(&{name}, {size})"), HIP),
            Memory::DevicePitched => {
                let pitch = self.names.fresh(NameKind::Value, "pitch");
                self.line(format!("size_t {pitch} = 0;"));
                let call = format!(
                    "hipMallocPitch(reinterpret_cast<void**>(&{name}), &{pitch}, {size}, 1)"
                );
                self.status(step, &call, HIP);
            }
            Memory::DeviceAsync => {
                let call =
                    format!("hipMallocAsync(reinterpret_cast<void**>(&{name}), {size}, {stream})");
                self.status(step, &call, HIP);
            }
            Memory::Managed => {
                self.status(
                    step,
                    &format!("hipMallocManaged(&{name}, {size}, hipMemAttachGlobal)"),
                    HIP,
                );
            }
            Memory::HostPinned => {
                self.status(
                    step,
                    &format!("hipHostMalloc(&{name}, {size}, hipHostMallocDefault)"),
                    HIP,
                );
            }
        }
        if guarded {
            let unless =
                if step.returns.is_some() { format!("if ({name}) ") } else { String::new() };
            self.line(format!("{unless}{name} += GUARD;"));
        }
    }

    pub(crate) fn free(&mut self, step: &Step, buffer: &str, stream: &str) {
        let Buffer { memory, guarded, .. } = self.buffer(buffer);
        let name = self.name(NameKind::Buffer, buffer);
        let hoisted = !self.declares(NameKind::Buffer, buffer);
        let base = match (guarded, hoisted) {
            (false, _) => name.clone(),
            (true, false) => format!("{name} - GUARD"),
            (true, true) => format!("{name} ? {name} - GUARD : nullptr"),
        };
        let stream = self.stream(stream);
        let call = match memory {
            Memory::Device | Memory::DevicePitched | Memory::Managed => {
                format!("hipFree({base})")
            }
            Memory::DeviceAsync => format!("hipFreeAsync({base}, {stream})"),
            Memory::HostPinned => format!("hipHostFree({base})"),
            Memory::HostRegistered => format!("hipHostUnregister({base})"),
            Memory::HostPageable => {
                self.line(format!("std::free({base});"));
                return self.reset_handle(step, NameKind::Buffer, buffer);
            }
        };
        self.status(step, &call, HIP);
        if memory == Memory::HostRegistered {
            self.line(format!("std::free({base});"));
        }
        // If the program frees the buffer a second time, the variable must keep the buffer's address.
        if !self.freed_again(buffer) {
            self.reset_handle(step, NameKind::Buffer, buffer);
        }
    }

    fn freed_again(&self, buffer: &str) -> bool {
        self.plan.steps().iter().any(|step| {
            matches!(&step.call, Call::Free { buffer: freed, .. } if freed == buffer)
                && !may_succeed(step)
        })
    }

    pub(crate) fn expects_success(&self, step: &Step) -> bool {
        step.returns
            .as_ref()
            .and_then(|by| by.at(self.version))
            .is_none_or(|names| names.iter().any(|n| is_success(n)))
    }

    pub(crate) fn poison(&mut self, step: &Step, buffer: &str) {
        let Buffer { memory, bytes, guarded } = self.buffer(buffer);
        let name = self.name(NameKind::Buffer, buffer);
        match (memory.on_host(), guarded) {
            (true, true) => {
                self.need(Helper::PoisonHost);
                self.line(format!("poison_host({name}, {bytes});"));
            }
            (true, false) => self.line(format!("std::memset({name}, POISON, {bytes});")),
            (false, guarded) => {
                if guarded {
                    let call =
                        format!("hipMemset({name} - GUARD, GUARD_BYTE, {bytes} + 2 * GUARD)");
                    self.status(step, &call, HIP);
                }
                self.status(step, &format!("hipMemset({name}, POISON, {bytes})"), HIP);
            }
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    pub(crate) fn transfer(&mut self, step: &Step) {
        let call = match &step.call {
            Call::Copy { to, from, bytes, api, stream } => {
                let (to_memory, from_memory) =
                    (self.buffer(&to.buffer).memory, self.buffer(&from.buffer).memory);
                let kind = direction(to_memory, from_memory);
                let (to, from, stream) = (self.place(to), self.place(from), self.stream(stream));
                match api {
                    CopyApi::Memcpy => format!("hipMemcpy({to}, {from}, {bytes}, {kind})"),
                    CopyApi::MemcpyAsync => {
                        format!("hipMemcpyAsync({to}, {from}, {bytes}, {kind}, {stream})")
                    }
                    CopyApi::MemcpyWithStream => {
                        format!("hipMemcpyWithStream({to}, {from}, {bytes}, {kind}, {stream})")
                    }
                    CopyApi::MemcpyDirected => {
                        let function = directed(to_memory, from_memory);
                        format!("{function}({to}, {from}, {bytes})")
                    }
                }
            }
            Call::Copy2d {
                to,
                to_pitch,
                from,
                from_pitch,
                width,
                height,
                asynchronous,
                stream,
            } => {
                let kind =
                    direction(self.buffer(&to.buffer).memory, self.buffer(&from.buffer).memory);
                let (to, from, stream) = (self.place(to), self.place(from), self.stream(stream));
                let (name, last) = if *asynchronous {
                    ("hipMemcpy2DAsync", format!(", {stream}"))
                } else {
                    ("hipMemcpy2D", String::new())
                };
                format!(
                    "{name}({to}, {to_pitch}, {from}, {from_pitch}, {width}, {height}, {kind}{last})"
                )
            }
            Call::Copy3d { to, from, width, height, depth, asynchronous, stream } => {
                let kind =
                    direction(self.buffer(&to.buffer).memory, self.buffer(&from.buffer).memory);
                let stream = self.stream(stream);
                let params = self.names.fresh(NameKind::Value, "copy");
                self.line(format!("hipMemcpy3DParms {params} = {{}};"));
                for (end, of) in [("src", from), ("dst", to)] {
                    let pitched = self.pitched(of, 0);
                    let [x, y, z] = of.at;
                    self.line(format!("{params}.{end}Ptr = {pitched};"));
                    self.line(format!("{params}.{end}Pos = make_hipPos({x}, {y}, {z});"));
                }
                let extent = format!("make_hipExtent({width}, {height}, {depth})");
                self.line(format!("{params}.extent = {extent};"));
                self.line(format!("{params}.kind = {kind};"));
                match asynchronous {
                    true => format!("hipMemcpy3DAsync(&{params}, {stream})"),
                    false => format!("hipMemcpy3D(&{params})"),
                }
            }
            Call::SetRows { to, value, width, height, depth, asynchronous, stream } => {
                let (name, last) = match asynchronous {
                    true => ("Async", format!(", {}", self.stream(stream))),
                    false => ("", String::new()),
                };
                match depth {
                    Some(depth) => {
                        let pitched = self.pitched(to, to.offset(0, 0));
                        format!(
                            "hipMemset3D{name}({pitched}, {value}, make_hipExtent({width}, {height}, {depth}){last})"
                        )
                    }
                    None => {
                        let at =
                            BufferAddress { buffer: to.buffer.clone(), offset: to.offset(0, 0) };
                        let (at, pitch) = (self.place(&at), to.pitch);
                        format!(
                            "hipMemset2D{name}({at}, {pitch}, {value}, {width}, {height}{last})"
                        )
                    }
                }
            }
            Call::Set { to, value, words, bytes, asynchronous, stream } => {
                let (to, stream) = (self.place(to), self.stream(stream));
                let (function, count) = match words {
                    true => ("hipMemsetD32", bytes / 4),
                    false => ("hipMemset", *bytes),
                };
                let value = value.cast_signed();
                if *asynchronous {
                    format!("{function}Async({to}, {value}, {count}, {stream})")
                } else {
                    format!("{function}({to}, {value}, {count})")
                }
            }
            _ => return self.unsupported_call(step),
        };
        self.status(step, &call, HIP);
    }

    /// Returns a C++ expression of type `hipPitchedPtr` for a box that begins at `offset` in a buffer.
    fn pitched(&mut self, of: &Box3d, offset: u64) -> String {
        let place = self.place(&BufferAddress { buffer: of.buffer.clone(), offset });
        format!("make_hipPitchedPtr({place}, {0}, {0}, {1})", of.pitch, of.rows)
    }

    pub(crate) fn mem_get_info(&mut self, step: &Step) {
        let free = self.names.fresh(NameKind::Value, "free_bytes");
        let total = self.names.fresh(NameKind::Value, "total_bytes");
        self.line(format!("size_t {free} = 0, {total} = 0;"));
        let call = format!("hipMemGetInfo(&{free}, &{total})");
        if let Some(arguments) = self.compares_free(step, &free, &total) {
            self.need(Helper::ExpectReturned);
            self.status(step, &call, HIP);
            self.line(format!("expect_returned({arguments});"));
            return;
        }
        let leak_checked =
            self.plan.steps().into_iter().any(|step| self.compares_free(step, "", "").is_some());
        let got = format!(
            "{free} > {total} ? std::string(\"more than the total\") : std::to_string({free})"
        );
        self.value(step, &call, HIP, "hipMemGetInfo", &got, |wanted| {
            format!("({free} <= {total} && {})", number_fits(&free, wanted))
        });
        if leak_checked {
            self.need(Helper::ExpectReturned);
            self.line(format!(
                "if (free_at_first == 0 && {free} <= {total}) free_at_first = {free};"
            ));
        }
    }

    /// Returns the arguments of the helper that compares the amount of free memory with that of the first query; `None`
    /// if the step does not require this comparison. `free` and `total` are the C++ variables into which hipMemGetInfo
    /// writes.
    fn compares_free(&self, step: &Step, free: &str, total: &str) -> Option<String> {
        let wanted = step.gives.as_ref()?.at(self.version)?;
        let asks = |since: FirstValueCheck| {
            matches!(step.call, Call::MemGetInfo) && wanted.iter().any(|w| w == since.word())
        };
        if asks(FirstValueCheck::Returned) {
            Some(format!("{free}, {total}"))
        } else if asks(FirstValueCheck::Unchanged) {
            Some(format!("{free}, {total}, /*exactly=*/true"))
        } else {
            None
        }
    }
}

/// Returns the direction of a copy, determined as in the worker. For managed memory, the HIP runtime determines the
/// direction.
pub(crate) fn direction(to: Memory, from: Memory) -> &'static str {
    if to == Memory::Managed || from == Memory::Managed {
        return "hipMemcpyDefault";
    }
    match (from.on_host(), to.on_host()) {
        (true, true) => "hipMemcpyHostToHost",
        (true, false) => "hipMemcpyHostToDevice",
        (false, true) => "hipMemcpyDeviceToHost",
        (false, false) => "hipMemcpyDeviceToDevice",
    }
}

fn directed(to: Memory, from: Memory) -> &'static str {
    let on_device = |memory: Memory| memory == Memory::Managed || !memory.on_host();
    match (on_device(from), on_device(to)) {
        (false, _) => "hipMemcpyHtoD",
        (true, false) => "hipMemcpyDtoH",
        (true, true) => "hipMemcpyDtoD",
    }
}
