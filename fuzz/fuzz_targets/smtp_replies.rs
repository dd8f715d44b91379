#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (zsched_fuzz::find("smtp_replies").run)(bytes));
