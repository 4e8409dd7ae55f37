;; attack: component types as deep as may be
;; expect: replied done
;; generate: component-types depth=60
