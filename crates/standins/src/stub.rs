//! The machine code of one stub.
//!
//! A stub cannot know the signature of the function it stands for, so it looks at no argument: it calls the
//! device's reporter with two names and a code, and returns what that returned. The code is widened to 64
//! bits with its sign, because some functions return a pointer, a `ssize_t` or a structure of two integers.

/// Bytes from one stub to the next.
pub(crate) const STRIDE: u64 = 48;

/// The addresses that a stub refers to, all in the same image.
pub(crate) struct Stub {
    /// Where its code lies.
    pub(crate) at: u64,
    /// The function's name, ending in a zero byte.
    pub(crate) function: u64,
    /// The library's name, ending in a zero byte.
    pub(crate) library: u64,
    /// The slot that holds the address of the reporter.
    pub(crate) reporter_slot: u64,
    /// What the stub returns.
    pub(crate) code: i32,
}

impl Stub {
    /// `STRIDE` bytes: `reporter(function, library, code)` for x86-64, System V.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut code = Vec::with_capacity(STRIDE as usize);
        self.relative(&mut code, &[0x48, 0x8d, 0x3d], self.function); // lea rdi, [rip + function]
        self.relative(&mut code, &[0x48, 0x8d, 0x35], self.library); // lea rsi, [rip + library]
        code.push(0xba); // mov edx, code
        code.extend(self.code.to_le_bytes());
        code.extend([0x48, 0x83, 0xec, 0x08]); // sub rsp, 8: calls need the stack aligned to 16
        self.relative(&mut code, &[0xff, 0x15], self.reporter_slot); // call [rip + slot]
        code.extend([0x48, 0x83, 0xc4, 0x08]); // add rsp, 8
        code.extend([0x48, 0x98]); // cdqe
        code.push(0xc3); // ret
        code.resize(STRIDE as usize, 0xcc); // int3
        code
    }

    /// An instruction that ends in the distance from its own end to `target`.
    fn relative(&self, code: &mut Vec<u8>, opcode: &[u8], target: u64) {
        let end = self.at + (code.len() + opcode.len() + 4) as u64;
        code.extend(opcode);
        code.extend((target.wrapping_sub(end) as u32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_relative_to_the_end_of_each_instruction() {
        let stub = Stub {
            at: 0x1000,
            function: 0x200,
            library: 0x210,
            reporter_slot: 0x3000,
            code: -2,
        };
        let code = stub.encode();
        assert_eq!(code.len() as u64, STRIDE);
        let distance = |at: usize| i32::from_le_bytes(code[at..at + 4].try_into().unwrap());
        assert_eq!(distance(3), 0x200 - 0x1007);
        assert_eq!(distance(10), 0x210 - 0x100e);
        assert_eq!(distance(15), -2);
        assert_eq!(distance(25), 0x3000 - 0x101d);
    }
}
