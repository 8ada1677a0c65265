//! What the head of a JPEG file says: the size of the picture and of each of its components.

/// A picture: its components with their sampling factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) components: usize,
    sampling: [(i32, i32); 4],
}

/// The head of a file; `None` when it is not one of a JPEG with up to four components.
pub(super) fn picture(file: &[u8]) -> Option<Picture> {
    let mut rest = file.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let [0xff, marker, after @ ..] = rest else {
            return None;
        };
        match marker {
            // A filling byte, or a marker that stands alone.
            0xff => rest = &rest[1..],
            0x01 | 0xd0..=0xd7 => rest = after,
            _ => {
                let length = usize::from(u16::from_be_bytes([*after.first()?, *after.get(1)?]));
                let segment = after.get(2..length)?;
                // A start of frame; three numbers in between mean something else.
                if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
                    return frame(segment);
                }
                rest = after.get(length..)?;
            }
        }
    }
}

fn frame(segment: &[u8]) -> Option<Picture> {
    let number = |at: usize| {
        Some(i32::from(u16::from_be_bytes([
            *segment.get(at)?,
            *segment.get(at + 1)?,
        ])))
    };
    let components = usize::from(*segment.get(5)?);
    let mut sampling = [(1, 1); 4];
    for (index, factors) in sampling.get_mut(..components)?.iter_mut().enumerate() {
        let byte = i32::from(*segment.get(7 + 3 * index)?);
        *factors = (byte >> 4, byte & 15);
    }
    let valid = sampling
        .iter()
        .all(|(across, down)| *across > 0 && *down > 0);
    let (height, width) = (number(1)?, number(3)?);
    (valid && components > 0 && width > 0).then_some(Picture {
        width,
        height,
        components,
        sampling,
    })
}

impl Picture {
    /// Width and height of each component.
    pub(super) fn sizes(&self) -> [(i32, i32); 4] {
        let most = |of: fn(&(i32, i32)) -> i32| {
            self.sampling[..self.components]
                .iter()
                .map(of)
                .max()
                .unwrap_or(1)
        };
        let (across, down) = (most(|factors| factors.0), most(|factors| factors.1));
        let mut sizes = [(0, 0); 4];
        for (size, factors) in sizes.iter_mut().zip(&self.sampling[..self.components]) {
            let part = |whole: i32, factor: i32, most: i32| (whole * factor + most - 1) / most;
            *size = (
                part(self.width, factors.0, across),
                part(self.height, factors.1, down),
            );
        }
        sizes
    }

    /// `nvjpegChromaSubsampling_t`.
    pub(super) fn subsampling(&self) -> i32 {
        let (luma, chroma) = (self.sampling[0], self.sampling[1]);
        match (self.components, luma.0 / chroma.0, luma.1 / chroma.1) {
            (1, ..) => 6,
            (_, 1, 1) => 0,
            (_, 2, 1) => 1,
            (_, 2, 2) => 2,
            (_, 1, 2) => 3,
            (_, 4, 1) => 4,
            (_, 4, 2) => 5,
            _ => -1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with an application segment, then a frame of 48 rows of 64 with these sampling factors.
    fn file(sampling: &[u8]) -> Vec<u8> {
        let mut file = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc0, 0];
        file.extend([
            8 + 3 * sampling.len() as u8,
            8,
            0,
            48,
            0,
            64,
            sampling.len() as u8,
        ]);
        for (index, factors) in sampling.iter().enumerate() {
            file.extend([index as u8, *factors, 0]);
        }
        file
    }

    #[test]
    fn sizes_are_read_from_the_frame() {
        let check = |sampling: &[u8], subsampling, second: (i32, i32)| {
            let picture = picture(&file(sampling)).unwrap();
            assert_eq!((picture.width, picture.height), (64, 48));
            assert_eq!(picture.subsampling(), subsampling, "{sampling:?}");
            assert_eq!(picture.sizes()[1], second, "{sampling:?}");
        };
        check(&[0x11], 6, (0, 0));
        check(&[0x11, 0x11, 0x11], 0, (64, 48));
        check(&[0x21, 0x11, 0x11], 1, (32, 48));
        check(&[0x22, 0x11, 0x11], 2, (32, 24));
        check(&[0x12, 0x11, 0x11], 3, (64, 24));
    }

    #[test]
    fn other_files_are_refused() {
        let check = |file: &[u8]| assert_eq!(picture(file), None);
        check(&[]);
        check(b"\x89PNG");
        check(&[0xff, 0xd8, 0xff, 0xc0, 0, 3, 8]);
        check(&file(&[0x11])[..20]);
        check(&file(&[0]));
    }
}
