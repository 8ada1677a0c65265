//! The pages of `_memory_viz trace_plot` and `segment_plot`: a script with `[{"name": ..., "base64": "..."}]`.

use crate::container::base64;
use crate::read::ReadError;

const KEY: &[u8] = b"\"base64\"";

/// The bytes of the pickle that a page embeds; with several, the first.
pub(crate) fn embedded_pickle(page: &[u8]) -> Result<Vec<u8>, ReadError> {
    let none = || ReadError::NothingInside("page");
    let key = page
        .windows(KEY.len())
        .position(|window| window == KEY)
        .ok_or_else(none)?;
    let mut at = key + KEY.len();
    for expected in [b':', b'"'] {
        let blanks = page[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace());
        at += blanks.count();
        if page.get(at) != Some(&expected) {
            return Err(none());
        }
        at += 1;
    }
    let text = &page[at..];
    let len = text
        .iter()
        .position(|&byte| byte == b'"')
        .ok_or_else(|| ReadError::Damaged {
            what: "page",
            offset: page.len(),
            reason: "it ends inside the embedded pickle".to_owned(),
        })?;
    base64::decode(&text[..len]).map_err(|offset| ReadError::Damaged {
        what: "page",
        offset: at + offset,
        reason: "the embedded pickle is not base64".to_owned(),
    })
}
