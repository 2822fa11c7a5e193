"""What was read: tidy rows, arrays and conventions, saved and loaded as one folder."""

from winze.readings.conventions import Conventions
from winze.readings.disk import ARRAYS, MANIFEST, ROWS, Array
from winze.readings.point import Label, Point
from winze.readings.readings import Readings
from winze.readings.rows import COLUMNS, HasPlace, ReadingsError, Row

__all__ = [
    "ARRAYS",
    "COLUMNS",
    "MANIFEST",
    "ROWS",
    "Array",
    "Conventions",
    "HasPlace",
    "Label",
    "Point",
    "Readings",
    "ReadingsError",
    "Row",
]
