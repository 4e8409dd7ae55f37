;; attack: many functions as large as may be
;; expect: admission refused: bytes of code is
;; generate: bodies count=20 bytes=1000000
