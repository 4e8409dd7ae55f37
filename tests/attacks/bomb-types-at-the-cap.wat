;; attack: as many types as may be
;; expect: replied done
;; generate: types count=1990
