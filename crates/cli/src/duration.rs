//! Durations as people type them: `10m`, `90s`, `1h30m`, `600`.

use std::time::Duration;

/// Reads a duration of at least one second.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut seconds: u64 = 0;
    if rest.is_empty() {
        return Err("a duration is a number and a unit, such as `90s`, `10m` or `1h30m`".into());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let number: u64 = rest[..digits]
            .parse()
            .map_err(|_| format!("`{text}` is not a duration such as `90s`, `10m` or `1h30m`"))?;
        let unit_len = rest[digits..]
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len() - digits);
        let unit = rest[digits..digits + unit_len].trim();
        let factor = match unit {
            "" | "s" | "sec" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            _ => {
                return Err(format!(
                    "`{unit}` in `{text}` is not a unit of time: s, m and h are"
                ));
            }
        };
        seconds = number
            .checked_mul(factor)
            .and_then(|part| seconds.checked_add(part))
            .filter(|&total| total <= 365 * 24 * 3600)
            .ok_or_else(|| format!("`{text}` is longer than a year"))?;
        rest = &rest[digits + unit_len..];
    }
    if seconds == 0 {
        return Err("a duration of zero leaves no time to run".into());
    }
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, seconds: u64) {
        assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
    }

    fn check_error(text: &str, expected: &str) {
        assert_eq!(parse(text).unwrap_err(), expected, "{text}");
    }

    #[test]
    fn reads_what_people_type() {
        check("600", 600);
        check("90s", 90);
        check("10m", 600);
        check("1h", 3600);
        check("1h30m", 5400);
        check(" 2 min ", 120);
    }

    #[test]
    fn refuses_the_rest() {
        check_error("0", "a duration of zero leaves no time to run");
        check_error(
            "",
            "a duration is a number and a unit, such as `90s`, `10m` or `1h30m`",
        );
        check_error(
            "soon",
            "`soon` is not a duration such as `90s`, `10m` or `1h30m`",
        );
        check_error(
            "-5s",
            "`-5s` is not a duration such as `90s`, `10m` or `1h30m`",
        );
        check_error(
            "3 days",
            "`days` in `3 days` is not a unit of time: s, m and h are",
        );
        check_error("99999999h", "`99999999h` is longer than a year");
    }
}
