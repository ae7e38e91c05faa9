//! Prints each call of a plan as C++.

mod template;

use plan::{
    Arg, Call, CaptureMode, Choice, CppForm, FirstValueCheck, HostFuncApi, ObjectUse, Step,
    StreamKind,
};

use self::template::enumerator;
use crate::{
    checks::{is_success, number_fits},
    declarations::{created_variable, type_of},
    form::Form,
    helpers::Helper,
    literal::text,
    matrix_products,
    names::NameKind,
    printer::Printer,
};

/// Status that means success in HIP.
pub(crate) const HIP: &str = "hipSuccess";
/// Status that means success in hipRAND.
pub(crate) const RAND: &str = "HIPRAND_STATUS_SUCCESS";
/// Status that means success in hipBLASLt.
pub(crate) const BLAS: &str = "HIPBLAS_STATUS_SUCCESS";
/// Status that means success in rocBLAS.
pub(crate) const ROCBLAS: &str = "rocblas_status_success";

impl Printer<'_> {
    /// Returns the name of the first library function that the program calls for `call`, for example `hipMalloc`. For
    /// an action of the host, returns the name of the action.
    pub(crate) fn api(&self, call: &Call) -> &'static str {
        plan::api(call, self.plan)
    }

    /// Prints the declarations of the variables that a call would set. Used if the program does not make the call.
    pub(crate) fn declare_only(&mut self, call: &Call) {
        if let Call::Load { kernel } = call
            && self.form_of(kernel) == Form::Hiprtc
        {
            let function = self.name(NameKind::Kernel, kernel);
            self.line(format!("hipModule_t {kernel}_module = nullptr;"));
            return self.line(format!("hipFunction_t {function} = nullptr;"));
        }
        // The program later uses the guard areas of this buffer.
        if let Call::Alloc { buffer, .. } = call
            && self.buffer(buffer).guarded
        {
            self.need(Helper::Guard);
        }
        if let Some((kind, name)) = created_variable(call)
            && self.declares(kind, name)
        {
            self.declare_created(kind, name);
        }
    }

    /// Prints the effect of a fault that refuses a call: the program does not make the call, and continues as if the
    /// call had returned the status `code`.
    pub(crate) fn inject_refusal(&mut self, step: &Step, code: i32) {
        self.declare_only(&step.call);
        let function = self.api(&step.call);
        self.line(format!(
            "// Injected fault: {function} is not called and returns status {code}."
        ));
        self.check_injected_status(step, code);
    }

    /// Prints the effect of a fault that replaces the status of the call printed before: the program continues as if
    /// that call had returned the status `code`.
    pub(crate) fn inject_status(&mut self, step: &Step, code: i32) {
        let function = self.api(&step.call);
        self.line(format!(
            "// Injected fault: {function} is called, but returns status {code} instead of its own."
        ));
        self.check_injected_status(step, code);
    }

    /// Prints the check of a status that a fault injects: the check that the program would make if the call had
    /// returned this status.
    fn check_injected_status(&mut self, step: &Step, code: i32) {
        let function = self.api(&step.call);
        let (ty, success) = match function {
            f if f.starts_with("hiprand") => {
                self.need(Helper::NameRand);
                ("hiprandStatus_t", RAND)
            }
            f if f.starts_with("hipblas") => {
                self.need(Helper::NameBlaslt);
                ("hipblasStatus_t", BLAS)
            }
            f if f.starts_with("rocblas") => {
                self.need(Helper::NameRocblas);
                ("rocblas_status", ROCBLAS)
            }
            _ => ("hipError_t", HIP),
        };
        if self.short.is_some() {
            return self.status(step, &format!("{ty}({code})"), success);
        }
        let wanted =
            step.returns.as_ref().map(|by| by.at(self.version).cloned().unwrap_or_default());
        match wanted {
            None => {
                self.need(Helper::Require);
                self.line(format!("require({ty}({code}), \"{function}\", __LINE__);"));
            }
            Some(names) if names.is_empty() || names.iter().any(|n| n == "any") => {}
            Some(names) => {
                self.need(Helper::ExpectStatus);
                let names = names.iter().map(|n| if is_success(n) { success } else { n });
                let names: Vec<&str> = names.collect();
                let line = format!(
                    "expect_status({ty}({code}), \"{function}\", __LINE__, {{{}}});",
                    names.join(", ")
                );
                self.line(line);
            }
        }
    }

    /// Returns the C++ variable for an object that a call creates. Prints the declaration of the variable here, unless
    /// the variable is declared at the top of `main`.
    pub(crate) fn declare_created(&mut self, kind: NameKind, name: &str) -> String {
        let identifier = self.name(kind, name);
        if self.declares(kind, name) {
            let star = if kind == NameKind::Buffer { "*" } else { "" };
            let initial = if kind == NameKind::Given { "{}" } else { " = nullptr" };
            if kind == NameKind::Given {
                self.need(Helper::Given);
            }
            self.line(format!("{}{star} {identifier}{initial};", type_of(kind)));
        }
        identifier
    }

    /// Prints a statement that sets the variable of a destroyed handle to null, as the worker does. Prints nothing if
    /// the destroying call must fail, or if the variable is declared at the call that created the object and is not
    /// used again.
    pub(crate) fn reset_handle(&mut self, step: &Step, kind: NameKind, name: &str) {
        if self.expects_success(step)
            && (!self.declares(kind, name) || self.used_after(step, kind, name))
        {
            let identifier = self.name(kind, name);
            self.line(format!("{identifier} = nullptr;"));
        }
    }

    /// Returns true if a later call of the program uses the object. Calls after another call has created an object with
    /// the same name do not count.
    fn used_after(&self, step: &Step, kind: NameKind, name: &str) -> bool {
        let steps = self.plan.steps();
        let later = steps.into_iter().skip_while(|other| !std::ptr::eq(*other, step)).skip(1);
        let mut named = later.flat_map(|step| step.call.all_named());
        let next = named.find(|named| NameKind::from(named.kind) == kind && named.name == name);
        match next.map(|next| next.role) {
            None | Some(ObjectUse::Created) => false,
            // A call that destroys an object for the second time uses the old handle, except for these kinds of
            // objects.
            Some(ObjectUse::Destroyed) => {
                !matches!(kind, NameKind::Buffer | NameKind::Exec | NameKind::Graph)
            }
            Some(_) => true,
        }
    }

    pub(crate) fn call(&mut self, step: &Step) {
        match step.call.cpp() {
            CppForm::Function(template) => self.templated_call(step, template),
            CppForm::Memory => self.memory(step),
            CppForm::Transfer => self.transfer(step),
            CppForm::Kernel => self.kernel_call(step),
            CppForm::Stream => self.stream_call(step),
            CppForm::Graph => self.graph_call(step),
            CppForm::Random => self.random(step),
            CppForm::Product => self.product(step),
            CppForm::Hip => self.hip(step),
            CppForm::Check => self.check(step),
            CppForm::Host => self.host(step),
            CppForm::Block => {}
        }
    }

    /// Prints an `#error` in place of a call that cannot be expressed in C++, so that the program does not silently
    /// omit the call.
    pub(crate) fn unsupported_call(&mut self, step: &Step) {
        let function = self.api(&step.call);
        self.line(format!("#error \"rocrepro cannot write {function} in C++\""));
    }

    /// Returns the status that means success in a function's library. Also adds to the program the helper function that
    /// converts statuses of that library to names.
    pub(crate) fn success(&mut self, step: &Step, function: &str) -> &'static str {
        let (helper, success) = match function {
            f if f.starts_with("hiprand") => {
                // The helper that names all statuses of hipRAND is long. Therefore a short program uses it only for the
                // failing step.
                let other = self.short.is_some_and(|short| !short.is_about(step));
                (if other { Helper::NameRandNumber } else { Helper::NameRand }, RAND)
            }
            f if f.starts_with("hipblas") => (Helper::NameBlaslt, BLAS),
            f if f.starts_with("rocblas") => (Helper::NameRocblas, ROCBLAS),
            _ => return HIP,
        };
        self.need(helper);
        success
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    fn memory(&mut self, step: &Step) {
        match &step.call {
            Call::Alloc { buffer, stream } => self.alloc(step, buffer, stream),
            Call::Free { buffer, stream } => self.free(step, buffer, stream),
            Call::FreeAddress { address } => {
                self.status(step, &format!("hipFree(reinterpret_cast<void*>({address:#x}))"), HIP);
            }
            Call::Poison { buffer } => self.poison(step, buffer),
            Call::MemGetInfo => self.mem_get_info(step),
            Call::TrimPool => {
                let pool = self.names.fresh(NameKind::Value, "pool");
                self.line(format!("hipMemPool_t {pool} = nullptr;"));
                self.status(step, &format!("hipDeviceGetDefaultMemPool(&{pool}, 0)"), HIP);
                self.status(step, &format!("hipMemPoolTrimTo({pool}, 0)"), HIP);
            }
            _ => self.unsupported_call(step),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    fn hip(&mut self, step: &Step) {
        match &step.call {
            Call::Hip { function, args } => self.foreign(step, function, args),
            Call::HipValue { of, function, read, against } => {
                self.check_value(step, (of, function), read, against.as_deref());
            }
            _ => self.unsupported_call(step),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    fn host(&mut self, step: &Step) {
        match &step.call {
            Call::Fill { buffer, stamp } if self.short.is_some() => self.short_fill(buffer, *stamp),
            Call::Fill { buffer, stamp } => {
                self.need(Helper::FillPattern);
                let (name, bytes) =
                    (self.name(NameKind::Buffer, buffer), self.buffer(buffer).bytes);
                let seed = self.seed(*stamp);
                self.line(format!("fill_pattern({name}, {bytes}, {seed});"));
            }
            Call::FillNumbers { buffer, dtype, stamp } => {
                self.need(Helper::FillNumbers);
                if let Some(helper) = matrix_products::element_helper(*dtype) {
                    self.need(helper);
                }
                let (name, bytes) =
                    (self.name(NameKind::Buffer, buffer), self.buffer(buffer).bytes);
                let (seed, element) = (self.seed(*stamp), matrix_products::element(*dtype));
                self.line(format!("fill_numbers<{element}>({name}, {bytes}, {seed});"));
            }
            Call::Sleep { ms } => {
                self.line(format!("std::this_thread::sleep_for(std::chrono::milliseconds({ms}));"));
            }
            _ => self.unsupported_call(step),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    fn kernel_call(&mut self, step: &Step) {
        match &step.call {
            Call::Compile { kernel } if self.short.is_some() => self.short_compile(kernel),
            Call::Compile { kernel } if self.form_of(kernel) == Form::Hiprtc => {
                self.need(Helper::Compile);
                let options = match self.options(kernel) {
                    None => String::new(),
                    Some(options) => format!(", {{{options}}}"),
                };
                self.line(format!(
                    "const std::vector<char> {kernel}_code = compile(\"{kernel}\", {kernel}_source, device.gcnArchName{options});"
                ));
            }
            Call::Load { kernel } if self.form_of(kernel) == Form::Hiprtc => {
                if self.is_emptied(kernel) && self.first_kernel(kernel) {
                    // Some ROCm releases refuse a launch whose argument pointer is null.
                    self.line("void* no_arguments = nullptr;");
                }
                self.line(format!("hipModule_t {kernel}_module = nullptr;"));
                self.status(
                    step,
                    &format!("hipModuleLoadData(&{kernel}_module, {kernel}_code.data())"),
                    HIP,
                );
                let function = self.name(NameKind::Kernel, kernel);
                self.line(format!("hipFunction_t {function} = nullptr;"));
                self.status(
                    step,
                    &format!("hipModuleGetFunction(&{function}, {kernel}_module, \"{kernel}\")"),
                    HIP,
                );
            }
            Call::Unload { kernel } if self.form_of(kernel) == Form::Hiprtc => {
                self.status(step, &format!("hipModuleUnload({kernel}_module)"), HIP);
            }
            Call::Compile { .. } | Call::Load { .. } | Call::Unload { .. } => {}
            Call::Launch { kernel, grid, block, args, shared, cooperative, stream } => {
                self.launch(step, kernel, (*grid, *block, *shared), *cooperative, args, stream);
            }
            Call::FindSymbol { kernel, symbol, variable } => {
                self.find_symbol(step, kernel, symbol, *variable);
            }
            _ => self.unsupported_call(step),
        }
    }

    /// Returns the seed of a fill as a C++ expression. In a loop, the expression has a different value in each
    /// iteration.
    fn seed(&self, stamp: u32) -> String {
        match self.occurrence() {
            None => stamp.to_string(),
            Some(round) => format!("uint64_t({round}) << 32 | {stamp}"),
        }
    }

    fn launch(
        &mut self,
        step: &Step,
        kernel: &str,
        (grid, block, shared): ([u32; 3], [u32; 3], u32),
        cooperative: bool,
        args: &[Arg],
        stream: &str,
    ) {
        let stream = self.stream(stream);
        let arguments = self.arguments(kernel, args);
        let behind = if arguments.is_empty() { String::new() } else { format!(", {arguments}") };
        match self.form_of(kernel) {
            Form::Hiprtc if self.is_emptied(kernel) => {
                let function = self.name(NameKind::Kernel, kernel);
                let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
                let (name, extra) = match cooperative {
                    true => ("hipModuleLaunchCooperativeKernel", ""),
                    false => ("hipModuleLaunchKernel", ", nullptr"),
                };
                let call = format!(
                    "{name}({function}, {gx}, {gy}, {gz}, {bx}, {by}, {bz}, {shared}, {stream}, &no_arguments{extra})"
                );
                self.status(step, &call, HIP);
            }
            Form::Hiprtc => {
                let (helper, launch) = match cooperative {
                    true => (Helper::LaunchCooperative, "launch_cooperative"),
                    false => (Helper::LaunchModule, "launch"),
                };
                self.need(helper);
                let function = self.name(NameKind::Kernel, kernel);
                self.status(
                    step,
                    &format!(
                        "{launch}({function}, {}, {}, {shared}, {stream}{behind})",
                        dim(grid),
                        dim(block)
                    ),
                    HIP,
                );
            }
            Form::Hipcc if self.launch_status_is_ambiguous() => {
                self.need(Helper::LaunchKernel);
                self.status(
                    step,
                    &format!(
                        "launch({kernel}, {}, {}, {shared}, {stream}{behind})",
                        dim(grid),
                        dim(block)
                    ),
                    HIP,
                );
            }
            Form::Hipcc => {
                self.line(format!(
                    "{kernel}<<<{}, {}, {shared}, {stream}>>>({arguments});",
                    dim(grid),
                    dim(block)
                ));
                self.status(step, "hipGetLastError()", HIP);
            }
        }
    }

    /// Returns true if the kernel has an empty body in a short program, because its work is not necessary for the
    /// failure.
    fn is_emptied(&self, kernel: &str) -> bool {
        let source = self.plan.kernels.get(kernel).map_or("", String::as_str);
        self.short.is_some() && source.ends_with(&format!("{kernel}() {{}}"))
    }

    fn first_kernel(&self, kernel: &str) -> bool {
        self.plan.kernels.keys().next().is_some_and(|first| first == kernel)
    }

    /// Returns true if the program cannot check a launch by calling hipGetLastError after `<<<>>>`, because that call
    /// could report the error of another call, or clear an error that the case itself queries later.
    fn launch_status_is_ambiguous(&self) -> bool {
        self.plan.steps().iter().any(|step| {
            !step.checked() || matches!(step.call, Call::GetLastError) || !step.planted.is_empty()
        })
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    fn stream_call(&mut self, step: &Step) {
        let call = match &step.call {
            Call::StreamCreate { stream } => {
                let flags = match self.plan.streams.get(stream) {
                    Some(StreamKind::NonBlocking) => "hipStreamNonBlocking",
                    _ => "hipStreamDefault",
                };
                let name = self.declare_created(NameKind::Stream, stream);
                format!("hipStreamCreateWithFlags(&{name}, {flags})")
            }
            Call::HostFunc { buffer, api, stream } => {
                self.need(Helper::AddOne);
                let (bytes, data) =
                    (self.buffer(buffer).bytes, self.name(NameKind::Buffer, buffer));
                let stream = self.stream(stream);
                match api {
                    HostFuncApi::AddCallback => {
                        format!("hipStreamAddCallback({stream}, add_one<{bytes}>, {data}, 0)")
                    }
                    HostFuncApi::LaunchHostFunc => {
                        format!("hipLaunchHostFunc({stream}, add_one<{bytes}>, {data})")
                    }
                }
            }
            Call::EventCreate { event, timing } => {
                let name = self.declare_created(NameKind::Event, event);
                let flags = if *timing { "hipEventDefault" } else { "hipEventDisableTiming" };
                format!("hipEventCreateWithFlags(&{name}, {flags})")
            }
            Call::EventElapsed { start, end } => {
                let (start, end) =
                    (self.name(NameKind::Event, start), self.name(NameKind::Event, end));
                let ms = self.names.fresh(NameKind::Value, "ms");
                self.line(format!("float {ms} = 0;"));
                let got = format!("std::to_string(static_cast<long long>({ms} * 1000))");
                let call = format!("hipEventElapsedTime(&{ms}, {start}, {end})");
                let microseconds = format!("static_cast<long long>({ms} * 1000)");
                let steady = |wanted: &str| wanted == FirstValueCheck::Steady.word();
                let gives = step.gives.as_ref().and_then(|by| by.at(self.version));
                if gives.is_some_and(|wanted| wanted.iter().any(|wanted| steady(wanted))) {
                    self.need(Helper::IsSteady);
                }
                return self.value(step, &call, HIP, "hipEventElapsedTime", &got, |wanted| {
                    if steady(wanted) {
                        format!("is_steady({microseconds})")
                    } else {
                        number_fits(&microseconds, wanted)
                    }
                });
            }
            _ => return self.unsupported_call(step),
        };
        self.status(step, &call, HIP);
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    fn graph_call(&mut self, step: &Step) {
        match &step.call {
            Call::EmptyGraph { graph, nodes } => self.empty_graph(step, graph, *nodes),
            Call::AddNode { graph, node } => self.add_node(step, graph, node),
            Call::IsCapturing { stream } => self.is_capturing(step, stream),
            Call::GraphInstantiate { exec, graph } => {
                let graph = self.name(NameKind::Graph, graph);
                let exec = self.declare_created(NameKind::Exec, exec);
                let node = self.names.fresh(NameKind::Value, "error_node");
                self.line(format!("hipGraphNode_t {node} = nullptr;"));
                let call = format!("hipGraphInstantiate(&{exec}, {graph}, &{node}, nullptr, 0)");
                self.status(step, &call, HIP);
            }
            Call::GraphExecUpdate { exec, graph } => self.exec_update(step, exec, graph),
            Call::GraphAddChild { graph, child } => self.add_child(step, graph, child),
            Call::ExchangeCaptureMode { mode } => self.exchange_capture_mode(step, *mode),
            _ => self.unsupported_call(step),
        }
    }

    fn find_symbol(&mut self, step: &Step, kernel: &str, symbol: &str, variable: bool) {
        let found = self.names.fresh(NameKind::Value, symbol);
        let symbol_text = text(symbol);
        if !variable {
            self.line(format!("hipFunction_t {found} = nullptr;"));
            let call = format!("hipModuleGetFunction(&{found}, {kernel}_module, {symbol_text})");
            return self.status(step, &call, HIP);
        }
        let bytes = self.names.fresh(NameKind::Value, &format!("{symbol}_bytes"));
        self.line(format!("hipDeviceptr_t {found} = nullptr;"));
        self.line(format!("size_t {bytes} = 0;"));
        let call =
            format!("hipModuleGetGlobal(&{found}, &{bytes}, {kernel}_module, {symbol_text})");
        let got = format!("std::to_string({bytes})");
        self.value(step, &call, HIP, "hipModuleGetGlobal", &got, |wanted| {
            number_fits(&bytes, wanted)
        });
    }

    fn exchange_capture_mode(&mut self, step: &Step, mode: CaptureMode) {
        let enumerator = |word: &str| format!("hipStreamCaptureMode{}", enumerator(word));
        let variable = self.names.fresh(NameKind::Value, "capture_mode");
        self.line(format!("hipStreamCaptureMode {variable} = {};", enumerator(mode.word())));
        let call = format!("hipThreadExchangeStreamCaptureMode(&{variable})");
        let got = format!("std::to_string({variable})");
        let function = "hipThreadExchangeStreamCaptureMode";
        self.value(step, &call, HIP, function, &got, |wanted| {
            format!("{variable} == {}", enumerator(wanted))
        });
    }

    fn is_capturing(&mut self, step: &Step, stream: &str) {
        let stream = self.stream(stream);
        let status = self.names.fresh(NameKind::Value, "capture_status");
        self.line(format!("hipStreamCaptureStatus {status} = hipStreamCaptureStatusNone;"));
        let call = format!("hipStreamIsCapturing({stream}, &{status})");
        self.need(Helper::NameCapture);
        let got = format!("std::string(name_of({status}))");
        self.value(step, &call, HIP, "hipStreamIsCapturing", &got, |wanted| {
            let name = match wanted {
                "active" => "hipStreamCaptureStatusActive",
                "invalidated" => "hipStreamCaptureStatusInvalidated",
                _ => "hipStreamCaptureStatusNone",
            };
            format!("{status} == {name}")
        });
    }

    fn exec_update(&mut self, step: &Step, exec: &str, graph: &str) {
        let (exec, graph) = (self.name(NameKind::Exec, exec), self.name(NameKind::Graph, graph));
        let node = self.names.fresh(NameKind::Value, "error_node");
        let result = self.names.fresh(NameKind::Value, "update_result");
        self.line(format!("hipGraphNode_t {node} = nullptr;"));
        self.line(format!("hipGraphExecUpdateResult {result} = hipGraphExecUpdateError;"));
        let call = format!("hipGraphExecUpdate({exec}, {graph}, &{node}, &{result})");
        let got = format!("std::to_string({result})");
        self.value(step, &call, HIP, "hipGraphExecUpdate", &got, |wanted| {
            let name = match wanted {
                "success" => "hipGraphExecUpdateSuccess",
                "error" => "hipGraphExecUpdateError",
                "topology_changed" => "hipGraphExecUpdateErrorTopologyChanged",
                "node_type_changed" => "hipGraphExecUpdateErrorNodeTypeChanged",
                "function_changed" => "hipGraphExecUpdateErrorFunctionChanged",
                "parameters_changed" => "hipGraphExecUpdateErrorParametersChanged",
                "not_supported" => "hipGraphExecUpdateErrorNotSupported",
                _ => "hipGraphExecUpdateErrorUnsupportedFunctionChange",
            };
            format!("{result} == {name}")
        });
    }
}

pub(crate) fn dim([x, y, z]: [u32; 3]) -> String {
    match (x, y, z) {
        (x, 1, 1) => x.to_string(),
        (x, y, 1) => format!("dim3({x}, {y})"),
        (x, y, z) => format!("dim3({x}, {y}, {z})"),
    }
}
