//! ZENV files, and texts in which their variables are replaced.

use super::byte_source::ByteSource;
use zsched_config::Zenv;

/// The input has a text with variables up to the first NUL, then the file.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let text = String::from_utf8_lossy(draw.until(0));
    let file = draw.rest();
    let Ok(zenv) = Zenv::parse(file) else {
        assert!(std::str::from_utf8(file).is_err() || file.contains(&0), "refused for no reason");
        return;
    };
    let expanded = zenv.expand(&text);
    if !text.contains('$') {
        assert_eq!(expanded, text);
    }
    // Each definition is found under its name, unless an earlier one has the same name.
    let lines = file.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let mut seen: Vec<&str> = Vec::new();
    for line in lines.map(str::trim_ascii).filter(|line| !line.starts_with('#')) {
        if let Some((name, value)) = line.split_once('=')
            && !seen.contains(&name.trim_end())
        {
            assert_eq!(zenv.get(name.trim_end()), Some(value.trim_start()));
            seen.push(name.trim_end());
        }
    }
}
