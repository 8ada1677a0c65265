//! `CUDA_VISIBLE_DEVICES` as the driver reads it: a list that ends at its first entry that names no device.

/// Ordinals of the devices that are visible, in the order they are numbered.
///
/// `list` is the value of the variable, `None` when it is not set. Naming a device twice hides all of them.
pub(crate) fn visible_devices(list: Option<&str>, count: u32) -> Vec<u32> {
    let Some(list) = list else {
        return (0..count).collect();
    };
    let mut visible = Vec::new();
    for entry in list.split(',') {
        let Some(ordinal) = ordinal(entry.trim_start(), count) else {
            break;
        };
        if visible.contains(&ordinal) {
            return Vec::new();
        }
        visible.push(ordinal);
    }
    visible
}

fn ordinal(entry: &str, count: u32) -> Option<u32> {
    if let Some(prefix) = entry.strip_prefix("GPU-") {
        let mut matching = (0..count).filter(|ordinal| uuid_text(*ordinal).starts_with(prefix));
        return matching.next().filter(|_| matching.next().is_none());
    }
    // The driver reads a number and stops at the first character that belongs to none.
    let digits = entry
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(entry.len());
    entry[..digits]
        .parse()
        .ok()
        .filter(|ordinal| *ordinal < count)
}

/// The UUID of a device.
pub(crate) fn uuid(ordinal: u32) -> [u8; 16] {
    let mut uuid = *b"oomproof-vgpu\0\0\0";
    uuid[12..].copy_from_slice(&ordinal.to_be_bytes());
    uuid
}

/// The UUID of a device as `nvidia-smi` writes it, without `GPU-`.
pub(crate) fn uuid_text(ordinal: u32) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(uuid(ordinal)));
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &[u32]) {
        assert_eq!(visible_devices(Some(list), 4), expected, "{list:?}");
    }

    #[test]
    fn ends_at_the_first_entry_that_names_no_device() {
        assert_eq!(visible_devices(None, 3), [0, 1, 2]);
        check("", &[]);
        check("-1", &[]);
        check("2,0", &[2, 0]);
        check(" 1, 3", &[1, 3]);
        check("1,-1,2", &[1]);
        check("0,7,1", &[0]);
        check("3", &[3]);
        check("4", &[]);
        check("none", &[]);
        check("1,1", &[]);
        check("1x", &[1]);
        check(&format!("GPU-{}", uuid_text(2)), &[2]);
        check("GPU-6f", &[]);
    }
}
