;; attack: components inside that hand each other values of too many parts
;; expect: admission refused: bytes of component types
;; generate: adapters count=30 parts=10000
