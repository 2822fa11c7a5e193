"""The playground: a local server on whose page small networks are trained and stored scans are walked through."""
