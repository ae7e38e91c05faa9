use super::*;

/// Converts a variable to the output pointer that a C caller passes.
fn out<T>(variable: &mut T) -> Out<T> {
    // SAFETY: `Out` is a transparent pointer, valid for writing as long as the variable lives.
    unsafe { std::mem::transmute::<*mut T, Out<T>>(variable) }
}

fn described(
    geometry: u32,
    [width, height, depth, layers]: [usize; 4],
    format: [u32; 2],
) -> Description {
    let [kind, order] = format;
    Description { geometry, width, height, depth, layers, format: ImageFormat { kind, order } }
}

const BYTES: [u32; 2] = [11, 8];

fn made(mut wanted: Description) -> Result<(u64, usize, usize), Status> {
    let mut info = DataInfo { size: 0, alignment: 0 };
    let status = hsa_ext_image_data_get_info(Agent::GPU, out(&mut wanted), 0, out(&mut info));
    if status != Status::SUCCESS {
        return Err(status);
    }
    let data =
        memory::allocate(info.size, Agent::GPU, 0, Kind::Pool).expect("memory for the image");
    let mut image = 0;
    let status =
        hsa_ext_image_create(Agent::GPU, out(&mut wanted), data as u64, 0, out(&mut image));
    assert_eq!(status, Status::SUCCESS);
    Ok((image, data, info.size))
}

fn region(offset: [u32; 3], range: [u32; 3]) -> Region {
    let dim = |[x, y, z]: [u32; 3]| Dim3 { x, y, z };
    Region { offset: dim(offset), range: dim(range) }
}

#[test]
fn parts_are_imported_and_exported() {
    #[track_caller]
    fn check(geometry: u32, size: [usize; 4], offset: [u32; 3], range: [u32; 3]) {
        let (image, data, bytes) =
            made(described(geometry, size, BYTES)).expect("the image is valid");
        // SAFETY: the range is memory of the image that nothing else accesses.
        let all = || unsafe { std::slice::from_raw_parts(data as *const u8, bytes) }.to_vec();
        let (row, slice) = (range[0] as usize * 4 + 3, range[0] as usize * 40);
        let source: Vec<u8> = (0..4000).map(|at| (at * 7 % 251 + 1) as u8).collect();
        let mut part = region(offset, range);
        let from = source.as_ptr() as usize;
        let status = hsa_ext_image_import(Agent::GPU, from, row, slice, image, out(&mut part));
        assert_eq!(status, Status::SUCCESS);
        let texels: u32 = range.iter().product();
        // The linear memory contains no zero bytes, and the image is zero before the import. Therefore the number of
        // bytes that are not zero shows how many were written.
        assert_eq!(all().iter().filter(|byte| **byte != 0).count(), texels as usize * 4);
        let mut target = vec![0u8; 4000];
        let to = target.as_mut_ptr() as usize;
        let status = hsa_ext_image_export(Agent::GPU, image, to, row, slice, out(&mut part));
        assert_eq!(status, Status::SUCCESS);
        // In one-dimensional arrays, y is the index of the layer, and layers are one row pitch apart.
        for z in 0..range[2] as usize {
            for y in 0..range[1] as usize {
                let at = z * slice + y * if geometry == 3 { slice } else { row };
                let len = range[0] as usize * 4;
                assert_eq!(target[at..at + len], source[at..at + len], "{geometry}: {y} {z}");
            }
        }
        assert_eq!(target.iter().filter(|byte| **byte != 0).count(), texels as usize * 4);
        let mut beyond = region([offset[0] + 1, offset[1], offset[2]], [size[0] as u32, 1, 1]);
        let status = hsa_ext_image_import(Agent::GPU, from, 0, 0, image, out(&mut beyond));
        assert_eq!(status, Status::INVALID_ARGUMENT);
        assert_eq!(hsa_ext_image_destroy(Agent::GPU, image), Status::SUCCESS);
        assert_eq!(hsa_ext_image_destroy(Agent::GPU, image), Status::INVALID_ARGUMENT);
        assert!(memory::free(data));
    }
    check(0, [9, 0, 0, 0], [2, 0, 0], [5, 1, 1]);
    check(1, [9, 7, 0, 0], [2, 3, 0], [5, 4, 1]);
    check(2, [9, 7, 3, 0], [2, 3, 1], [5, 2, 2]);
    check(3, [9, 0, 0, 4], [2, 1, 0], [5, 3, 1]);
    check(4, [9, 7, 0, 3], [0, 0, 0], [9, 7, 3]);
    check(5, [300, 0, 0, 0], [100, 0, 0], [60, 1, 1]);
}

#[test]
fn images_are_copied_and_cleared() {
    let wanted = described(1, [5, 3, 0, 0], BYTES);
    let (first, _, _) = made(wanted).expect("the image is valid");
    let (second, data, _) = made(wanted).expect("the image is valid");
    let mut part = region([1, 1, 0], [2, 2, 1]);
    let status = hsa_ext_image_clear(Agent::GPU, first, out(&mut [1, 2, 300, 4]), out(&mut part));
    assert_eq!(status, Status::SUCCESS);
    let (mut from, mut to, mut range) =
        (part.offset, Dim3 { x: 3, y: 0, z: 0 }, Dim3 { x: 2, y: 3, z: 1 });
    let mut copy = |range: &mut Dim3| {
        let (from, to) = (out(&mut from), out(&mut to));
        hsa_ext_image_copy(Agent::GPU, first, from, second, to, out(range))
    };
    assert_eq!(copy(&mut range), Status::INVALID_ARGUMENT);
    range.y = 2;
    assert_eq!(copy(&mut range), Status::SUCCESS);
    // SAFETY: the address is that of two texels in the second row of the second image.
    let row = unsafe { ((data + 256 + 12) as *const [u8; 8]).read() };
    assert_eq!(row, [1, 2, 255, 4, 1, 2, 255, 4]);
}

#[test]
fn rejects_formats_and_sizes_that_hardware_lacks() {
    let refused = |geometry, size, format| made(described(geometry, size, format)).map(|_| ());
    let size = [8, 8, 0, 0];
    // UNORM_INT24, RGBX, signed LUMINANCE, DEPTH of bytes, RGB of bytes.
    for format in [[4, 1], [2, 7], [8, 17], [2, 18], [2, 6]] {
        assert_eq!(refused(1, size, format), Err(Status::IMAGE_FORMAT_UNSUPPORTED), "{format:?}");
    }
    assert_eq!(refused(1, [16385, 8, 0, 0], BYTES), Err(Status::IMAGE_SIZE_UNSUPPORTED));
    assert_eq!(refused(1, [8, 8, 0, 2], BYTES), Err(Status::IMAGE_SIZE_UNSUPPORTED));
    assert_eq!(refused(8, size, BYTES), Err(Status::INVALID_ARGUMENT));
    let pitched = |geometry, address: u64, row, slice| {
        let (mut wanted, mut image) = (described(geometry, [8, 8, 0, 0], BYTES), 0);
        let wanted = out(&mut wanted);
        let to = out(&mut image);
        hsa_ext_image_create_with_layout(Agent::GPU, wanted, address, 0, 1, row, slice, to)
    };
    assert_eq!(pitched(1, 4096, 512, 0), Status::SUCCESS);
    assert_eq!(pitched(1, 4096, 512, 4096), Status::SUCCESS);
    assert_eq!(pitched(1, 4096, 500, 0), Status::IMAGE_PITCH_UNSUPPORTED);
    assert_eq!(pitched(1, 4096, 512, 4095), Status::IMAGE_PITCH_UNSUPPORTED);
    // The descriptor of an array has no field for a pitch on this architecture.
    assert_eq!(pitched(4, 4096, 512, 0), Status::IMAGE_PITCH_UNSUPPORTED);
    assert_eq!(pitched(4, 4096, 256, 0), Status::SUCCESS);
    assert_eq!(pitched(1, 4000, 512, 0), Status::INVALID_ARGUMENT);
    let mut mask = 9;
    let mut capability = |kind, order| {
        let status = hsa_ext_image_get_capability(
            Agent::GPU,
            1,
            out(&mut ImageFormat { kind, order }),
            out(&mut mask),
        );
        assert_eq!(status, Status::SUCCESS);
        mask
    };
    // RGBA of bytes, sRGB, depth, signed luminance.
    assert_eq!(
        [capability(2, 8), capability(2, 14), capability(15, 18), capability(8, 17)],
        [7, 1, 3, 0]
    );
}

/// Handles point to objects with the layout that kernels expect. The objects of ROCr have 12 and 8 words, and HIP
/// copies exactly these numbers.
#[test]
fn handles_point_to_descriptors() {
    let (image, data, _) = made(described(1, [5, 3, 0, 0], BYTES)).expect("the image is valid");
    // SAFETY: the object of a handle has that many words.
    let words = unsafe { (image as *const [u32; IMAGE_WORDS]).read() };
    assert_eq!(words[0], (data >> 8) as u32);
    assert_eq!(words[8..11], [BYTES[0], BYTES[1], 5]);
    let mut wanted = SamplerDescription { coordinates: 1, filter: 1, addressing: 4 };
    let mut sampler = 0;
    let status = hsa_ext_sampler_create(Agent::GPU, out(&mut wanted), out(&mut sampler));
    assert_eq!(status, Status::SUCCESS);
    // SAFETY: the object of a sampler has that many words.
    let words = unsafe { (sampler as *const [u32; SAMPLER_WORDS]).read() };
    assert_eq!(words[..4], [1 | 1 << 3 | 1 << 6, 0xfff << 12, 5 << 20, 0]);
    assert_eq!(hsa_ext_sampler_destroy(Agent::GPU, sampler), Status::SUCCESS);
    assert_eq!(hsa_ext_sampler_destroy(Agent::GPU, sampler), Status::INVALID_ARGUMENT);
    wanted.addressing = 5;
    let status = hsa_ext_sampler_create(Agent::GPU, out(&mut wanted), out(&mut sampler));
    assert_eq!(status, Status::INVALID_ARGUMENT);
}
