family! { blas

    BlasltCreate { handle: Name as makes(Blaslt) }
        verb: value blaslt_create "create a hipBLASLt handle";
        makes: ["hipblasLtCreate"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("creation of handle {handle}"); cpp: Function("hipblasLtCreate(&{handle})");

    /// Queries the algorithms for one matrix product. The returned value is the number of algorithms.
    BlasltHeuristic { handle: Name as uses(Blaslt), problem: MatmulProblem as plain }
        verb: by_hand blaslt_heuristic [handle, dtype, m, n, k, transpose, bias]
            "query matmul algorithms; returns their number";
        makes: [
            "hipblasLtMatmulAlgoGetHeuristic",
            "hipblasLtMatmulDescCreate",
            "hipblasLtMatmulDescDestroy",
            "hipblasLtMatmulDescSetAttribute",
            "hipblasLtMatmulPreferenceCreate",
            "hipblasLtMatmulPreferenceDestroy",
            "hipblasLtMatmulPreferenceSetAttribute",
            "hipblasLtMatrixLayoutCreate",
            "hipblasLtMatrixLayoutDestroy",
        ];
        in_capture: Now; by_hand: []; gives: Number(&[]); effect: nothing;
        words: ("heuristic of hipBLASLt"); cpp: Product;

    /// Computes a matrix product with the first algorithm that the heuristic returns and that needs no workspace. If
    /// every algorithm needs a workspace, the status is `HIPBLAS_STATUS_NOT_SUPPORTED`.
    BlasltMatmul {
        handle: Name as uses(Blaslt),
        problem: MatmulProblem as plain,
        operands: Operands as operands,
        stream: Name as uses(Stream),
    }
        verb: by_hand blaslt_matmul [handle, dtype, m, n, k, transpose, a, b, d, bias, stream]
            "multiply with hipBLASLt: d = a b, column-major, optionally with a bias buffer";
        makes: [
            "hipblasLtMatmul",
            "hipblasLtMatmulAlgoGetHeuristic",
            "hipblasLtMatmulDescCreate",
            "hipblasLtMatmulDescDestroy",
            "hipblasLtMatmulDescSetAttribute",
            "hipblasLtMatmulPreferenceCreate",
            "hipblasLtMatmulPreferenceDestroy",
            "hipblasLtMatmulPreferenceSetAttribute",
            "hipblasLtMatrixLayoutCreate",
            "hipblasLtMatrixLayoutDestroy",
        ];
        in_capture: Node; by_hand: []; gives: Nothing;
        effect: {
            memory: Product { problem, operands },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: Library(stream),
            over: Nothing,
        };
        words: ("hipBLASLt matrix product into {}", operands.d); cpp: Product;

    BlasltDestroy { handle: Name as ends(Blaslt) }
        verb: value blaslt_destroy "destroy a hipBLASLt handle";
        makes: ["hipblasLtDestroy"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("destruction of handle {handle}"); cpp: Function("hipblasLtDestroy({handle})");

    RocblasCreate { handle: Name as makes(Rocblas) }
        verb: value rocblas_create "create a rocBLAS handle";
        makes: ["rocblas_create_handle"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("creation of handle {handle}"); cpp: Function("rocblas_create_handle(&{handle})");

    RocblasGemm {
        handle: Name as uses(Rocblas),
        problem: MatmulProblem as plain,
        operands: Operands as operands,
        stream: Name as uses(Stream),
    }
        verb: by_hand rocblas_gemm [handle, dtype, m, n, k, transpose, a, b, d, stream]
            "multiply with rocBLAS: d = a b, column-major";
        makes: ["rocblas_gemm_ex", "rocblas_set_stream"];
        in_capture: Node; by_hand: []; gives: Nothing;
        effect: {
            memory: Product { problem, operands },
            captures: Nothing,
            order: ProgramOrder,
            work_stream: Library(stream),
            over: Nothing,
        };
        words: ("rocBLAS matrix product into {}", operands.d); cpp: Product;

    RocblasDestroy { handle: Name as ends(Rocblas) }
        verb: value rocblas_destroy "destroy a rocBLAS handle";
        makes: ["rocblas_destroy_handle"];
        in_capture: Now; by_hand: []; gives: Nothing; effect: nothing;
        words: ("destruction of handle {handle}"); cpp: Function("rocblas_destroy_handle({handle})");
}
