family! { kernels

    /// Compiles a kernel with hipRTC for the architecture of the device.
    Compile { kernel: Name as makes(Kernel) }
        verb: none;
        makes: [
            "hiprtcCompileProgram",
            "hiprtcCreateProgram",
            "hiprtcDestroyProgram",
            "hiprtcGetCode",
            "hiprtcGetCodeSize",
            "hiprtcGetProgramLog",
            "hiprtcGetProgramLogSize",
        ];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: (""); cpp: Kernel;

    /// Loads a compiled kernel with hipModuleLoadData and hipModuleGetFunction.
    Load { kernel: Name as makes(Kernel) }
        verb: none;
        makes: ["hipModuleLoadData", "hipModuleGetFunction"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: (""); cpp: Kernel;

    Unload { kernel: Name as ends(Kernel) }
        verb: none;
        makes: ["hipModuleUnload"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: (""); cpp: Kernel;

    /// Launches a kernel. `grid` is in workgroups, `block` in work-items per workgroup, and `shared` in bytes of
    /// dynamic LDS per workgroup. The runtime keeps all workgroups of a `cooperative` launch resident at the same time,
    /// or refuses the launch.
    Launch {
        kernel: Name as uses(Kernel),
        grid: [u32; 3] as plain,
        block: [u32; 3] as plain,
        args: Vec<Arg> as arguments(kernel),
        #[serde(default)]
        shared: u32 as plain,
        #[serde(default)]
        cooperative: bool as flag,
        stream: Name as uses(Stream),
    }
        verb: by_hand launch [kernel, args, items, grid, block, shared, cooperative, stream, graph]
            "launch a kernel; with `graph`, as a node of that graph. The workgroups of a `cooperative` launch run at the \
             same time, so that they can wait for each other";
        makes: { |_plan| cooperative => {
            false => ["hipModuleLaunchKernel"],
            true => ["hipModuleLaunchCooperativeKernel"],
        } };
        in_capture: Node; by_hand: ["hipGraphAddKernelNode"]; gives: Nothing;
        effect: {
            memory: Launch { kernel, grid, block, args },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: Stream(stream),
            over: Nothing,
        };
        words: ("launch of {kernel}"); cpp: Kernel;

    /// Looks up a symbol in the module of a kernel: a variable with hipModuleGetGlobal if `variable` is set, else a
    /// function with hipModuleGetFunction. For a variable, the returned value is its size in bytes.
    FindSymbol {
        kernel: Name as uses(Kernel),
        symbol: String as text,
        variable: bool as flag,
    }
        verb: keys find_symbol
            "look up a function in a kernel's module, or a `variable` and return its size in bytes";
        makes: { |_plan| variable => {
            false => ["hipModuleGetFunction"],
            true => ["hipModuleGetGlobal"],
        } };
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: nothing;
        words: ("lookup of {symbol}"); cpp: Kernel;
}
