;; attack: a file of 41 MiB
;; expect: admission refused: size in bytes is
;; generate: padding bytes=42991616
