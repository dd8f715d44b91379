//! The segment of shared memory in which all programs of ZMailer count (`-M`).
//!
//! It is a file with a structure of C in it. A row has its label, and the number so that it ends in
//! column 42, which monitors cut out.

mod rows;

use super::failure::Failure;
use super::installation::Installation;
use super::screen::Screen;
use rows::{ROWS, Row};
use std::fs::{self, File};
use std::io::{Read, Write};
use zsched_format::time::Timestamp;
use zsched_spool::processes::Process;

/// What the segment begins with.
const MAGIC: u32 = 0x3312_0006;
/// The size of the structure, in bytes; the file is larger.
const SIZE: usize = 2592;

/// A copy of the segment.
pub struct Segment {
    bytes: Vec<u8>,
}

/// Copies the segment of this installation, or tells why that cannot be done.
pub fn read(installation: &Installation) -> Result<Segment, String> {
    let path = installation.shared_memory().ok_or("the ZENV file has no SNMPSHAREDFILE")?;
    let failed = |why: String| format!("{}: {why}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    file.take(SIZE as u64).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    let segment = Segment { bytes };
    match segment.number(0) {
        _ if segment.bytes.len() < SIZE => Err(failed("it is too short".to_string())),
        MAGIC => Ok(segment),
        other => Err(failed(format!("it begins with {other:#010x}, not with {MAGIC:#010x}"))),
    }
}

impl Segment {
    /// Prints all that is counted.
    pub fn print<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Failure> {
        writeln!(screen, "ZMailer SHM segment dump; Magic={:#010x}", self.number(0))?;
        let load = loads();
        for row in ROWS {
            match *row {
                Row::Gap => writeln!(screen)?,
                Row::Now(label) => {
                    writeln!(screen, "{label:<32}{:>10}", Timestamp::now().seconds())?;
                }
                Row::Load(label, which) => {
                    if let Some(load) = load.get(which) {
                        writeln!(screen, "{label:<36}{load:>6.2}")?;
                    }
                }
                Row::Counter(label, at) => writeln!(screen, "{label:<32}{:>10}", self.number(at))?,
                Row::Gauge(label, at) => {
                    writeln!(screen, "{label:<33}{:>9}", self.number(at).cast_signed())?;
                }
                Row::NarrowGauge(label, at) => {
                    writeln!(screen, "{label:<38}{:>4}", self.number(at).cast_signed())?;
                }
                Row::Time(label, at) => writeln!(screen, "{label:<32}{:>10}", self.time(at))?,
                Row::Pid(label, at) => {
                    let pid = self.number(at);
                    let is_gone = pid != 0 && Process::alive(pid).is_none();
                    let remark = if is_gone { " NOT PRESENT!" } else { "" };
                    writeln!(screen, "{label:<32}{pid:>10}{remark}")?;
                }
            }
        }
        Ok(())
    }

    /// The four bytes there; 0 behind the end.
    fn number(&self, offset: usize) -> u32 {
        self.bytes[offset.min(self.bytes.len())..]
            .first_chunk()
            .map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// The eight bytes there.
    fn time(&self, offset: usize) -> i64 {
        self.bytes[offset.min(self.bytes.len())..]
            .first_chunk()
            .map_or(0, |bytes| i64::from_ne_bytes(*bytes))
    }
}

/// The load averages of the system, where it tells.
fn loads() -> Vec<f64> {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).map_while(|word| word.parse().ok()).collect()
}
