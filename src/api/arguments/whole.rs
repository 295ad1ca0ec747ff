//! Whole numbers, which some clients write with a decimal point.

use std::fmt;

use serde::Deserializer;
use serde::de::{self, Unexpected, Visitor};

/// The first whole number that 64 bits do not hold.
const BEYOND: f64 = 18_446_744_073_709_551_616.0;

/// Reads a whole number that is not negative. `65536.0` is one too, as in JSON Schema, since some clients write every
/// number with a decimal point.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = u64;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a whole number from 0 on")
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
            let wrong = || E::invalid_value(Unexpected::Signed(number), &self);
            u64::try_from(number).map_err(|_| wrong())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<u64, E> {
            if number.fract() != 0.0 || !(0.0..BEYOND).contains(&number) {
                return Err(E::invalid_value(Unexpected::Float(number), &self));
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "seen to be a whole number that fits"
            )]
            Ok(number as u64)
        }
    }

    let number = deserializer.deserialize_u64(Whole)?;
    T::try_from(number).map_err(|_| de::Error::invalid_value(Unexpected::Unsigned(number), &Whole))
}

/// The same for an argument that may be left out.
pub(crate) fn some_whole<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    whole(deserializer).map(Some)
}
